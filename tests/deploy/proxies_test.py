"""The documented settings of nginx and HAProxy, run in front of a server.

Each proxy gets its file from `deploy/`, with other ports and paths, and a certificate made here.

    python3 tests/deploy/proxies_test.py       needs nginx, haproxy, openssl and the server's binary
"""

import base64
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from ports import free_port  # noqa: E402

TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BINARY = pathlib.Path(os.environ.get("RAGWIRE_SERVER", TARGET / "debug/ragwire-server"))
HOST = "docs.example.org"
USER, PASSWORD = "ada", "a password"
# How long a process may take to start, or a condition to hold, in a busy test run.
PATIENCE = 60.0
# The server's silence until it sends a keep-alive.
KEEP_ALIVE = 1.0


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.05)
    return found


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Behind:
    """What each proxy has to do. The classes below say how it is started."""

    binary = None

    def setUp(self):
        self.connections = []
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        # Workers of nginx run as another user.
        self.folder.chmod(0o755)
        self.port = free_port()
        self.start_server()
        self.proxy_port = free_port()
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={HOST}",
             "-addext", f"subjectAltName=DNS:{HOST}", "-keyout", self.folder / "key", "-out", self.folder / "cert"],
            check=True, capture_output=True,
        )
        self.context = ssl.create_default_context(cafile=self.folder / "cert")
        self.start_proxy()
        wait_for(lambda: is_open(self.proxy_port), f"{self.binary} listens")

    def start_server(self):
        command = [BINARY, "--listen", f"127.0.0.1:{self.port}", "--data", self.folder / "data", "--test-faults",
                   "--allow-host", HOST, "--owner-header", "x-user", "--keep-alive", f"{int(KEEP_ALIVE * 1000)}ms",
                   "--disconnect-grace", "0s"]
        self.server = self.process(command, "server.log")
        log = self.folder / "server.log"
        wait_for(lambda: "answers at" in log.read_text(), "the server answers")

    def process(self, command, log):
        with open(self.folder / log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out)

        def end():
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def password_hash(self):
        made = subprocess.run(["openssl", "passwd", "-6", PASSWORD], check=True, capture_output=True, text=True)
        return made.stdout.strip()

    def connection(self):
        """A connection to the proxy, whose certificate is checked."""
        socket_ = socket.create_connection(("127.0.0.1", self.proxy_port), timeout=PATIENCE)
        connection = http.client.HTTPSConnection(HOST, self.proxy_port, context=self.context, timeout=PATIENCE)
        connection.sock = self.context.wrap_socket(socket_, server_hostname=HOST)
        self.addCleanup(connection.close)
        self.connections.append(connection)
        return connection

    def headers(self, **more):
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        return {"authorization": f"Basic {login}"} | {name.replace("_", "-"): value for name, value in more.items()}

    def ask(self, prompt, path="/v1/turns", accept="application/x-ndjson", **more):
        connection = self.connection()
        headers = self.headers(content_type="application/json", accept=accept, **more)
        connection.request("POST", path, json.dumps({"prompt": prompt}), headers)
        return connection.getresponse()

    def active_turns(self):
        """Asks the server itself."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        connection.request("GET", "/metrics", headers={"host": HOST})
        figures = connection.getresponse().read().decode()
        connection.close()
        return int(re.search(r"^ragwire_turns_active (\d+)", figures, re.M).group(1))

    def test_the_pieces_of_an_answer_are_not_collected(self):
        words, pause = 20, 0.1
        began = time.monotonic()
        response = self.ask(f"fault:paced {words} {int(pause * 1000)} red")
        self.assertEqual(response.status, 200)
        arrivals, seen = [], b""
        while piece := response.read1(65536):
            arrivals.append(time.monotonic() - began)
            seen += piece
        self.assertIn(f"red-{words}".encode(), seen)
        self.assertIn(b'"end"', seen.splitlines()[-1])
        self.assertGreaterEqual(len(arrivals), words // 2, arrivals)
        self.assertLess(arrivals[0], arrivals[-1] - pause * words / 2, arrivals)

    def test_a_silent_answer_sends_keep_alives(self):
        response = self.ask("fault:silent", accept="text/event-stream")
        self.assertEqual(response.status, 200)
        began, seen = time.monotonic(), b""
        while seen.count(b"\n:") < 3:
            piece = response.read1(65536)
            self.assertTrue(piece, seen)
            seen += piece
        self.assertLess(time.monotonic() - began, 3 * KEEP_ALIVE + 2.0)

    def test_an_answer_that_is_cut_does_not_look_complete(self):
        response = self.ask("fault:long")
        seen = response.read1(65536)
        self.server.kill()
        try:
            while piece := response.read1(65536):
                seen += piece
            was_cut = False
        except (http.client.IncompleteRead, ConnectionError, ssl.SSLError):
            was_cut = True
        self.assertNotIn(b'"end"', seen)
        self.assertTrue(was_cut, "the proxy ended the answer as if it were complete")

    def test_a_client_that_leaves_ends_its_turn(self):
        response = self.ask("fault:long")
        response.read1(65536)
        self.assertEqual(self.active_turns(), 1)
        response.close()
        for connection in self.connections:
            connection.close()
        wait_for(lambda: self.active_turns() == 0, "the turn ends")

    def test_the_proxy_names_the_user(self):
        connection = self.connection()
        connection.request("GET", "/v1/sessions")
        response = connection.getresponse()
        self.assertEqual(response.status, 401)
        response.read()
        # A session of the user, which the header of the client does not change.
        body = json.dumps({})
        connection = self.connection()
        connection.request("POST", "/v1/sessions", body, self.headers(content_type="application/json", x_user="eve"))
        response = connection.getresponse()
        made = response.read()
        self.assertEqual(response.status, 201, made)
        session = json.loads(made)["id"]
        for user, status in ((USER, 200), ("eve", 404)):
            direct = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
            direct.request("GET", f"/v1/sessions/{session}", headers={"host": HOST, "x-user": user})
            self.assertEqual(direct.getresponse().status, status, user)
            direct.close()

    def test_uploads_as_large_as_the_server_takes_pass(self):
        line = "The red kite steers with its tail. "
        text = (line * (4 << 20 // len(line)))[: 4 << 20]
        connection = self.connection()
        headers = self.headers(content_type="text/markdown", origin=f"https://{HOST}:{self.proxy_port}")
        connection.request("POST", "/v1/documents?name=kites.md", text.encode(), headers)
        response = connection.getresponse()
        self.assertEqual(response.status, 201, response.read())

    def test_a_websocket_passes(self):
        connection = self.connection()
        headers = self.headers(
            connection="Upgrade", upgrade="websocket", sec_websocket_version="13",
            sec_websocket_key=base64.b64encode(bytes(16)).decode(), origin=f"https://{HOST}:{self.proxy_port}",
        )
        connection.request("GET", "/api/v1/socket", headers=headers)
        reply = connection.sock.recv(4096)
        self.assertTrue(reply.startswith(b"HTTP/1.1 101 "), reply)
        message = json.dumps({"id": "1", "service": "document-rag", "flow": "default",
                              "request": {"query": "fault:text", "streaming": True}}).encode()
        mask = bytes(4)
        connection.sock.sendall(b"\x81" + bytes([0x80 | 126]) + len(message).to_bytes(2, "big") + mask + message)
        seen = reply.split(b"\r\n\r\n", 1)[1]
        while b'"complete":true' not in seen.replace(b" ", b""):
            piece = connection.sock.recv(65536)
            self.assertTrue(piece, seen)
            seen += piece


@unittest.skipUnless(shutil.which("nginx"), "no nginx")
class Nginx(Behind, unittest.TestCase):
    binary = "nginx"

    def start_proxy(self):
        (self.folder / "users").write_text(f"{USER}:{self.password_hash()}\n")
        text = (ROOT / "deploy/nginx.conf").read_text()
        for documented, here in (
            ("127.0.0.1:8787", f"127.0.0.1:{self.port}"),
            ("listen 443 ", f"listen 127.0.0.1:{self.proxy_port} "),
            ("/etc/ssl/docs.example.org.pem", self.folder / "cert"),
            ("/etc/ssl/docs.example.org.key", self.folder / "key"),
            ("/etc/nginx/ragwire.users", self.folder / "users"),
        ):
            self.assertEqual(text.count(documented), 1, documented)
            text = text.replace(documented, str(here))
        (self.folder / "site.conf").write_text(text)
        temporary = "\n".join(
            f"{name}_temp_path {self.folder}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        main = self.folder / "nginx.conf"
        main.write_text(
            f"pid {self.folder}/pid; error_log stderr; daemon off;\nevents {{}}\n"
            f"http {{ access_log off; {temporary} include {self.folder}/site.conf; }}\n"
        )
        self.process([shutil.which("nginx"), "-p", self.folder, "-c", main], "proxy.log")
        self.addCleanup(self.stop)

    def stop(self):
        """Stops the workers too, which survive a master that is killed."""
        pid = self.folder / "pid"
        if pid.exists():
            os.kill(int(pid.read_text()), signal.SIGTERM)
            wait_for(lambda: not pid.exists(), "nginx stops")


@unittest.skipUnless(shutil.which("haproxy"), "no haproxy")
class Haproxy(Behind, unittest.TestCase):
    binary = "haproxy"

    def start_proxy(self):
        (self.folder / "both").write_text((self.folder / "cert").read_text() + (self.folder / "key").read_text())
        text = (ROOT / "deploy/haproxy.cfg").read_text()
        for documented, here in (
            ("127.0.0.1:8787", f"127.0.0.1:{self.port}"),
            ("bind :443 ", f"bind 127.0.0.1:{self.proxy_port} "),
            ("/etc/haproxy/docs.example.org.pem", self.folder / "both"),
            ("$6$ragwire$changeme", self.password_hash()),
        ):
            self.assertEqual(text.count(documented), 1, documented)
            text = text.replace(documented, str(here))
        main = self.folder / "haproxy.cfg"
        main.write_text(text)
        self.process([shutil.which("haproxy"), "-db", "-f", main], "proxy.log")


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    # As node's test runner prints them, for scripts/test.
    print(f"# pass {result.testsRun - failed - len(result.skipped)}\n# fail {failed}")
    raise SystemExit(failed > 0)
