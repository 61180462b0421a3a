"""The same app in every ASGI server, as a process of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import websockets

from conftest import PATIENCE, ask, text_of, wait_until
from ports import free_port

APP = """
import asyncio
import fastapi
import ragwire
import ragwire._granian

ragwire._granian.GRACE = 0.5

async def answer(question, sink):
    await sink.event("search", tool="bm25", query=question.prompt)
    if question.prompt == "wait":
        await asyncio.Event().wait()
    for token in ("Forty", "-", "two."):
        await sink.text(token)
        await asyncio.sleep(0)
    return ragwire.Metadata(tools_used=["bm25"])

app = ragwire.Endpoints(answer)

endpoints = ragwire.Endpoints(answer)
mounted = fastapi.FastAPI(lifespan=endpoints.lifespan)
mounted.mount("/", endpoints)
"""

COMMANDS = {
    "uvicorn-asyncio": ["uvicorn", "app:app", "--loop", "asyncio", "--port", "{port}"],
    "uvicorn-uvloop": ["uvicorn", "app:app", "--loop", "uvloop", "--http", "httptools", "--port", "{port}"],
    "uvicorn-workers": ["uvicorn", "app:app", "--workers", "2", "--port", "{port}"],
    "gunicorn-preload": [
        "gunicorn", "app:app", "--preload", "-w", "2", "-k", "uvicorn_worker.UvicornWorker", "-b", "127.0.0.1:{port}"
    ],
    "hypercorn": ["hypercorn", "app:app", "--bind", "127.0.0.1:{port}"],
    "hypercorn-uvloop": ["hypercorn", "app:app", "-k", "uvloop", "--bind", "127.0.0.1:{port}"],
    "granian": ["granian", "--interface", "asgi", "--loop", "asyncio", "app:app", "--port", "{port}"],
    "granian-uvloop": ["granian", "--interface", "asgi", "--loop", "uvloop", "app:app", "--port", "{port}"],
    "granian-fastapi": ["granian", "--interface", "asgi", "app:mounted", "--port", "{port}"],
}


GRACE = {"uvicorn": ["--timeout-graceful-shutdown", "1"], "hypercorn": ["--graceful-timeout", "1"], "granian": []}
"""How long a server waits for open streams before it cancels them, in seconds. granian never cancels them."""

# Several workers of uvicorn are those of one. Since Python 3.12 hypercorn waits for the connections of asyncio before
# its time-out begins.
NOT_ENDING = {"uvicorn-workers"} | ({"hypercorn"} if sys.version_info >= (3, 12) else set())
ENDING = [name for name in COMMANDS if name.partition("-")[0] in GRACE and name not in NOT_ENDING]


@pytest.fixture(params=COMMANDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with running(COMMANDS[request.param], tmp_path) as (url, _):
        yield url


@contextmanager
def running(arguments: list[str], tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    (tmp_path / "app.py").write_text(APP)
    port = free_port()
    command = [part.format(port=port) for part in arguments]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", *command], cwd=tmp_path, stdout=log, stderr=subprocess.STDOUT
        )

    def is_up() -> bool:
        assert server.poll() is None, (tmp_path / "log").read_text()
        try:
            return httpx.get(f"http://127.0.0.1:{port}/v1/models", timeout=PATIENCE).status_code == 200
        except httpx.HTTPError:
            return False

    try:
        wait_until(is_up)
        yield f"http://127.0.0.1:{port}", server
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_a_turn_is_answered_over_http_and_over_the_websocket(url: str) -> None:
    for _ in range(3):
        frames = ask(url)
        assert frames[0]["event"] == "search"
        assert text_of(frames) == "Forty-two."
        assert frames[-1]["end"] == "completed"
    chat = httpx.post(
        f"{url}/v1/chat/completions",
        json={"model": "ragwire", "messages": [{"role": "user", "content": "why?"}]},
        timeout=PATIENCE,
    )
    assert chat.json()["choices"][0]["message"]["content"] == "Forty-two."
    missing = httpx.get(f"{url}/v1/turns/{'0' * 32}/stream", timeout=PATIENCE)
    assert missing.status_code == 404
    assert asyncio.run(over_websocket(url)) == "Forty-two."


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ENDING)
def test_a_signal_ends_an_open_turn_with_its_terminal(name: str, number: signal.Signals, tmp_path: Path) -> None:
    command = [*COMMANDS[name], *GRACE[name.partition("-")[0]]]
    with running(command, tmp_path) as (url, server):
        body = b""
        asked = {"json": {"prompt": "wait"}, "headers": {"accept": "application/x-ndjson"}}
        with httpx.stream("POST", f"{url}/v1/turns", timeout=PATIENCE, **asked) as response:  # type: ignore[arg-type]
            for part in response.iter_bytes():
                if not body:
                    server.send_signal(number)
                body += part
        end = json.loads(body.splitlines()[-1])
        assert (end["end"], end["error"]["code"]) == ("failed", "shutting_down")
        server.wait(PATIENCE)


async def over_websocket(url: str) -> str:
    address = url.replace("http", "ws", 1) + "/api/v1/socket"
    async with websockets.connect(address, open_timeout=PATIENCE) as connection:
        request = {"id": "q-1", "service": "graph-rag", "flow": "default", "request": {"query": "why?", "streaming": True}}
        await connection.send(json.dumps(request))
        answer = ""
        while True:
            message = json.loads(await asyncio.wait_for(connection.recv(), PATIENCE))
            assert message["id"] == "q-1"
            response = message["response"]
            answer += response.get("response") or ""
            if message.get("complete") or response.get("end_of_session"):
                return answer
