"""The files for containers and systemd, checked as far as this machine can.

With a Docker engine the image is built and run. Otherwise the final stage of the Dockerfile is
followed by hand: the binary and the libraries it needs go into an empty folder, which becomes the
root of an unprivileged process with the environment of the image.

    python3 tests/deploy/deploy_test.py        needs the server's binary: scripts/test build
"""

import http.client
import os
import pathlib
import re
import shutil
import signal
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
# How long a server may take to start in a busy test run.
PATIENCE = 60.0


def dockerfile():
    """Instructions of the Dockerfile as `(name, argument)`, with continued lines joined."""
    lines, text = [], ""
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        text += line.rstrip("\\").strip() + " "
        if not line.endswith("\\"):
            name, argument = text.strip().split(None, 1)
            lines.append((name, argument))
            text = ""
    return lines


def last_stage():
    instructions = dockerfile()
    starts = [index for index, (name, _) in enumerate(instructions) if name == "FROM"]
    return instructions[starts[-1]:]


def environment():
    values = {}
    for name, argument in last_stage():
        if name == "ENV":
            values.update(pair.split("=", 1) for pair in argument.split())
    return values


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    try:
        return response.status, response.read().decode()
    finally:
        connection.close()


def has_docker_engine():
    return bool(shutil.which("docker")) and subprocess.run(["docker", "info"], capture_output=True).returncode == 0


def has_compose():
    return bool(shutil.which("docker")) and subprocess.run(["docker", "compose", "version"], capture_output=True).returncode == 0


class Dockerfile(unittest.TestCase):
    def test_runs_as_a_user_without_rights_and_reports_its_health(self):
        stage = dict(last_stage())
        user = stage["USER"].split(":")[0]
        self.assertTrue(user.isdigit() and int(user) > 0, "Kubernetes checks runAsNonRoot by number")
        self.assertRegex(stage["HEALTHCHECK"], r'CMD \["ragwire-server", "health"\]')
        self.assertEqual(stage["ENTRYPOINT"], '["ragwire-server"]', "the exec form receives SIGTERM")
        self.assertIn(environment()["RAGWIRE_DATA"], stage["VOLUME"])
        self.assertTrue(environment()["RAGWIRE_LISTEN"].endswith(":" + stage["EXPOSE"]))

    def test_every_variable_is_one_of_the_server(self):
        names = {name for name in environment() if name.startswith("RAGWIRE_")}
        names |= set(re.findall(r"^\s+- (RAGWIRE_[A-Z_]+)", (ROOT / "compose.yaml").read_text(), re.M))
        help_text = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
        secrets = {"RAGWIRE_LLM_KEY"}
        for name in names - secrets:
            flag = "--" + name.removeprefix("RAGWIRE_").lower().replace("_", "-")
            self.assertRegex(help_text, re.escape(flag) + r"\b", f"{name} is no setting")

    def test_the_context_holds_every_member_of_the_workspace(self):
        manifest = (ROOT / "Cargo.toml").read_text()
        members = re.search(r"^members = \[(.*?)\]", manifest, re.M | re.S).group(1)
        kept = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
        for member in re.findall(r'"([^"]+)"', members):
            if member != ".":
                self.assertTrue(any(member == path or member.startswith(path + "/") for path in kept), f"{member} is missing")

    @unittest.skipUnless(has_docker_engine(), "no Docker engine")
    def test_the_image_builds_and_serves(self):
        subprocess.run(["docker", "build", "-t", "ragwire-server:test", ROOT], check=True)
        container = subprocess.run(
            ["docker", "run", "-d", "-P", "ragwire-server:test"], check=True, capture_output=True, text=True
        ).stdout.strip()
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                health = subprocess.run(["docker", "exec", container, "ragwire-server", "health"], capture_output=True)
                if health.returncode == 0:
                    break
                self.assertLess(time.monotonic(), deadline, health.stderr)
                time.sleep(1)
        finally:
            subprocess.run(["docker", "rm", "-f", container], check=True, capture_output=True)

    @unittest.skipUnless(os.geteuid() == 0, "chroot needs root")
    def test_the_final_stage_serves_from_an_empty_root(self):
        root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, root)
        root.chmod(0o755)
        self.install(root)
        user = int(dict(last_stage())["USER"].split(":")[0])
        data = root / environment()["RAGWIRE_DATA"].lstrip("/")
        data.mkdir()
        os.chown(data, user, user)
        port = free_port()
        values = environment() | {"PATH": "/usr/local/bin", "RAGWIRE_LISTEN": f"0.0.0.0:{port}"}

        def command(*arguments):
            return [shutil.which("chroot"), f"--userspec={user}:{user}", root, "/usr/local/bin/ragwire-server", *arguments]

        health = command("health", "--server", f"http://127.0.0.1:{port}")
        before = subprocess.run(health, env=values, capture_output=True, text=True)
        self.assertNotEqual(before.returncode, 0, "nothing listens yet")
        with open(root / "server.log", "wb") as log:
            server = subprocess.Popen(command(), env=values, stdout=log, stderr=log)
        self.addCleanup(server.kill)
        deadline = time.monotonic() + PATIENCE
        while (ready := subprocess.run(health, env=values, capture_output=True, text=True)).returncode != 0:
            self.assertIsNone(server.poll(), (root / "server.log").read_text())
            self.assertLess(time.monotonic(), deadline, ready.stderr + (root / "server.log").read_text())
            time.sleep(0.2)
        status, page = get(port, "/")
        self.assertEqual(status, 200)
        self.assertIn("<html", page)
        self.assertTrue(any(data.iterdir()), "the library is kept in the volume")
        self.assertEqual(sorted(path.name for path in root.iterdir()), sorted(self.expected | {"server.log", data.name}))
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(PATIENCE), 0, (root / "server.log").read_text())

    def install(self, root):
        """Copies the binary, its shared libraries, and what the server needs of a Debian."""
        (root / "usr/local/bin").mkdir(parents=True)
        shutil.copy(BINARY, root / "usr/local/bin/ragwire-server")
        libraries = subprocess.run(["ldd", BINARY], capture_output=True, text=True)
        for path in re.findall(r"(/\S+) \(0x", libraries.stdout):
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        # Every container has it; the server finds its own program there.
        (root / "proc").mkdir()
        subprocess.run(["mount", "-t", "proc", "proc", root / "proc"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", root / "proc"], check=True)
        self.expected = {path.name for path in root.iterdir()}


class Compose(unittest.TestCase):
    @unittest.skipUnless(has_compose(), "no docker compose")
    def test_compose_accepts_the_file(self):
        subprocess.run(["docker", "compose", "-f", ROOT / "compose.yaml", "--profile", "*", "config", "-q"], check=True)

    def test_every_image_is_pinned_and_every_volume_declared(self):
        text = (ROOT / "compose.yaml").read_text()
        for image in re.findall(r"^\s+image: (\S+)", text, re.M):
            self.assertRegex(image, r":v?\d", f"{image} has no version")
        declared = set(re.findall(r"^  (\w+):$", text[text.rindex("\nvolumes:"):], re.M))
        used = set(re.findall(r"^\s+(?:- |volumes: \[)(\w+):/", text, re.M))
        self.assertEqual(used, declared)


class Systemd(unittest.TestCase):
    unit = ROOT / "deploy/ragwire-server.service"

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_systemd_accepts_the_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / self.unit.name
            unit.write_text(self.unit.read_text().replace("/usr/local/bin/ragwire-server", str(BINARY)))
            result = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
            about_the_unit = [line for line in result.stderr.splitlines() if self.unit.name in line]
            self.assertEqual((result.returncode, about_the_unit), (0, []))

    def test_the_server_accepts_the_flags_of_the_unit(self):
        line = re.search(r"^ExecStart=(.*)$", self.unit.read_text(), re.M).group(1)
        help_text = subprocess.run([BINARY, "--help"], capture_output=True, text=True, check=True).stdout
        for flag in re.findall(r"--[a-z-]+", line):
            self.assertIn(flag, help_text)


if __name__ == "__main__":
    result = unittest.main(exit=False).result
    failed = len(result.failures) + len(result.errors)
    # As node's test runner prints them, for scripts/test.
    print(f"# pass {result.testsRun - failed - len(result.skipped)}\n# fail {failed}")
    raise SystemExit(failed > 0)
