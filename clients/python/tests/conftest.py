"""An ASGI server in a thread, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn

# The longest wait for something that happens at once. No test asserts how long it took.
PATIENCE = 20.0


class Server:
    """uvicorn in a thread, with an event loop of its own."""

    def __init__(self, app: Any, loop: str = "asyncio", **options: Any) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = listener.getsockname()[1]
        config = uvicorn.Config(app, loop=loop, log_level="warning", **options)  # type: ignore[arg-type]
        self.server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self.server.run, kwargs={"sockets": [listener]})
        self._thread.start()
        wait_until(lambda: self.server.started)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        self.server.should_exit = True
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the server does not end"

    def open(self, prompt: str = "why?", accept: str = "application/x-ndjson") -> socket.socket:
        """Asks without reading the answer."""
        connection = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        body = json.dumps({"prompt": prompt}).encode()
        head = (
            f"POST /v1/turns HTTP/1.1\r\nhost: x\r\naccept: {accept}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        connection.sendall(head.encode() + body)
        return connection


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it does not happen"
        time.sleep(0.005)


Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[Server] = []

    def start(app: Any, **options: Any) -> Server:
        servers.append(Server(app, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def ask(url: str, prompt: str = "why?", **options: Any) -> list[dict[str, Any]]:
    """Asks on ragwire's own route and returns all frames."""
    response = httpx.post(
        f"{url}/v1/turns",
        json={"prompt": prompt},
        headers={"accept": "application/x-ndjson", **options.pop("headers", {})},
        timeout=PATIENCE,
    )
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines() if line]


def text_of(frames: list[dict[str, Any]]) -> str:
    return "".join(frame.get("text", "") for frame in frames)


def read_head(connection: socket.socket) -> dict[str, str]:
    """Reads the status line and the headers of a response, and nothing after them."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, head
        head += byte
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    return {"status": lines[0].split(" ")[1], **headers}


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
