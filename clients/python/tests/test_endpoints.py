"""The options of `Endpoints`, owners, mounted apps, and routes of one's own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import fastapi
import httpx
import pytest
from starlette.middleware.gzip import GZipMiddleware
from starlette.testclient import TestClient

import ragwire
from ragwire import _decode, _endpoints
from conftest import PATIENCE, Serve, ask, text_of, wait_until
from ports import free_port


async def echo(question: ragwire.Question, sink: ragwire.Sink) -> None:
    await sink.text(f"{question.owner}: {question.prompt} after {len(question.history)}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"protocols": ["smtp"]}, "unknown protocol \"smtp\"; known: rag, turns, ai_sdk"),
        ({"protocols": "turns"}, "must be a list of str"),
        ({"idle": -1}, "idle must be a number of seconds from 0"),
        ({"max_question_bytes": -1}, "max_question_bytes"),
        ({"prefix": "/{a}"}, "prefix must be a plain path"),
        ({"pass_headers": ["x y"]}, "is not a header name"),
    ],
)
def test_a_mistake_in_an_option_is_named(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ragwire.OptionError, match=problem):
        ragwire.Endpoints(echo, **options)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(TypeError):
        ragwire.Endpoints(echo, jurnal=None)  # type: ignore[call-arg]
    with pytest.raises(ragwire.OptionError, match="unknown option max_turn; known: max_turn_bytes, max_turns"):
        ragwire.Journal(max_turn=1)  # type: ignore[call-arg]


def test_the_names_in_the_types_are_those_of_rust() -> None:
    """Editors complete them."""
    assert get_args(_endpoints.Protocol) == ragwire.PROTOCOLS
    stub = resources.files("ragwire").joinpath("_ragwire.pyi").read_text()
    names = re.findall(r'"(\w+)"', stub.partition("_WireName = Literal[")[2].partition("]")[0])
    assert names == list(ragwire.WIRES)
    assert list(get_args(_decode.Wire)) == list(ragwire.DECODED_WIRES)


def test_protocols_and_prefix_select_the_routes(serve: Serve) -> None:
    server = serve(ragwire.Endpoints(echo, protocols=["turns", "ai-sdk"], prefix="rag"))
    assert text_of(ask(f"{server.url}/rag")) == ": why? after 0"
    assert httpx.post(f"{server.url}/rag/ag-ui", json={}).status_code == 404
    assert httpx.post(f"{server.url}/v1/turns", json={}).status_code == 404


def test_an_app_that_is_mounted_serves_its_routes_below(serve: Serve) -> None:
    app = fastapi.FastAPI()
    endpoints = ragwire.Endpoints(echo)
    app.mount("/rag", endpoints)
    app.mount("/", ragwire.Endpoints(echo, prefix="/other"))
    server = serve(app)
    assert text_of(ask(f"{server.url}/rag")) == ": why? after 0"
    assert text_of(ask(f"{server.url}/other")) == ": why? after 0"


def test_owners_have_turns_and_sessions_of_their_own(serve: Serve) -> None:
    server = serve(ragwire.Endpoints(echo, owner=ragwire.owner_header("X-User")))
    refused = httpx.post(f"{server.url}/v1/turns", json={"prompt": "?"})
    assert refused.status_code == 401
    assert refused.json()["error"]["code"] == "unauthorized"

    def chat(user: str, prompt: str) -> str:
        response = httpx.post(
            f"{server.url}/v1/rag/sessions/s-1/messages",
            json={"prompt": prompt},
            headers={"x-user": user},
            timeout=PATIENCE,
        )
        assert response.status_code == 200, response.text
        return response.text

    assert "ada: one after 0" in chat("ada", "one")
    assert "ada: two after 2" in chat("ada", "two")
    assert "eve: three after 0" in chat("eve", "three")

    started = httpx.post(
        f"{server.url}/v1/turns", json={"prompt": "?"}, headers={"x-user": "ada"}, timeout=PATIENCE
    )
    turn = started.headers["x-ragwire-turn"]
    for user, status in (("eve", 404), ("ada", 200)):
        resumed = httpx.get(f"{server.url}/v1/turns/{turn}/stream", headers={"x-user": user}, timeout=PATIENCE)
        assert resumed.status_code == status


def test_an_owner_may_be_async_refuse_and_fail(serve: Serve, caplog: pytest.LogCaptureFixture) -> None:
    async def owner(scope: Any) -> str | None:
        await asyncio.sleep(0)
        query = scope["query_string"].decode()
        if query == "refused":
            raise ragwire.Refusal(402, "unpaid", "Please pay.")
        if query == "broken":
            raise ValueError("password=hunter2")
        return query or None

    server = serve(ragwire.Endpoints(echo, owner=owner))

    def status(query: str) -> tuple[int, str]:
        response = httpx.post(f"{server.url}/v1/turns?{query}", json={"prompt": "?"}, timeout=PATIENCE)
        return response.status_code, response.text

    assert status("ada")[0] == 200
    assert "ada: ?" in status("ada")[1]
    code, body = status("refused")
    assert (code, json.loads(body)["error"]["code"]) == (402, "unpaid")
    code, body = status("broken")
    assert (code, json.loads(body)["error"]["code"]) == (500, "internal")
    assert "hunter2" not in body
    assert "hunter2" in caplog.text


def test_a_route_of_ones_own_returns_the_response(serve: Serve) -> None:
    app = fastapi.FastAPI()
    journal = ragwire.Journal(keep=60)

    @app.post("/chat")
    async def chat(prompt: str, tasks: fastapi.BackgroundTasks, wire: str = "ai-sdk") -> ragwire.Response:
        tasks.add_task(finished.append, prompt)
        turn = await ragwire.Turn.start(answer, prompt, journal=journal).commit()
        response = turn.response(wire)
        response.headers["x-app"] = "acme"
        return response

    @app.get("/chat/{turn_id}")
    async def resume(turn_id: str, index: int) -> fastapi.Response:
        turn = await journal.resume(turn_id, index=index)
        return turn.response("sse")

    @app.exception_handler(ragwire.Rejected)
    async def rejected(request: fastapi.Request, error: ragwire.Rejected) -> ragwire.Response:
        return error.response()

    finished: list[str] = []

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        if question.prompt == "fail":
            raise ragwire.Failure("quota", "You have used today's quota.", recoverable=False)
        await sink.event("search", tool="bm25")
        await sink.text("Forty-two.")
        return ragwire.Metadata()

    server = serve(app)
    response = httpx.post(f"{server.url}/chat", params={"prompt": "why?"}, timeout=PATIENCE)
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert response.headers["x-app"] == "acme"
    wait_until(lambda: finished == ["why?"])
    assert response.text.endswith("data: [DONE]\n\n")
    assert "Forty-two." in response.text
    for wire in ragwire.WIRES:
        streamed = httpx.post(f"{server.url}/chat", params={"prompt": "why?", "wire": wire}, timeout=PATIENCE)
        assert streamed.status_code == 200
        assert "Forty-two." in streamed.text, wire
    resumed = httpx.get(f"{server.url}/chat/{response.headers['x-ragwire-turn']}", params={"index": 1})
    assert "Forty-two." in resumed.text
    assert "bm25" not in resumed.text
    rejected_ = httpx.post(f"{server.url}/chat", params={"prompt": "fail"}, timeout=PATIENCE)
    assert (rejected_.status_code, rejected_.json()["error"]["code"]) == (500, "quota")
    assert rejected_.headers["content-type"] == "application/json"
    assert rejected_.json()["error"]["request_id"]
    gone = httpx.get(f"{server.url}/chat/{'0' * 32}", params={"index": 0}, timeout=PATIENCE)
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "unknown_turn")
    unknown = httpx.post(f"{server.url}/chat", params={"prompt": "?", "wire": "smtp"}, timeout=PATIENCE)
    assert unknown.status_code == 500


async def test_a_busy_group_is_a_rejection_with_the_time_to_retry() -> None:
    group = ragwire.TurnGroup(max_active=1)

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        await asyncio.Event().wait()

    first = await ragwire.Turn.start(answer, group=group).commit()
    with pytest.raises(ragwire.Rejected) as rejected:
        await ragwire.Turn.start(answer, group=group).commit()
    response = rejected.value.response()
    assert (response.status_code, response.headers["retry-after"]) == (503, "5")
    assert json.loads(bytes(response.body)) == rejected.value.body()
    first.stop()


@pytest.mark.parametrize("wire", ["text/event-stream", "application/x-ndjson", "text/plain"])
def test_middleware_of_fastapi_passes_the_stream_on_as_it_is_made(serve: Serve, wire: str) -> None:
    goes_on = threading.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        await asyncio.to_thread(goes_on.wait)
        await sink.text("-two.")

    app = fastapi.FastAPI()

    @app.middleware("http")
    async def timed(request: fastapi.Request, call_next: Any) -> fastapi.Response:
        response: fastapi.Response = await call_next(request)
        response.headers["x-timed"] = "yes"
        return response

    app.add_middleware(GZipMiddleware)
    app.mount("/", ragwire.Endpoints(answer))
    server = serve(app)
    accept = {"accept": wire, "accept-encoding": "gzip"}
    with httpx.stream("POST", f"{server.url}/v1/turns", json={"prompt": "?"}, headers=accept, timeout=PATIENCE) as response:
        assert response.headers["x-timed"] == "yes"
        seen = ""
        for piece in response.iter_text():
            seen += piece
            # The orchestrator only continues because its first words arrived.
            if "Forty" in seen:
                goes_on.set()
        assert "-two." in seen


def test_each_test_client_begins_a_lifespan_of_its_own() -> None:
    turns = ragwire.TurnGroup(max_active=1, max_per_owner=1)
    for options in ({}, {"turns": turns}):
        endpoints = ragwire.Endpoints(echo, **options)
        app = fastapi.FastAPI(lifespan=endpoints.lifespan)
        app.mount("/", endpoints)
        for _ in range(2):
            with TestClient(app) as client:
                for _ in range(2):
                    answered = client.post("/v1/turns", json={"prompt": "?"}, headers={"accept": "application/x-ndjson"})
                    assert text_of([json.loads(line) for line in answered.text.splitlines() if line]) == ": ? after 0"


async def test_a_group_that_was_shut_down_is_used_again_by_new_endpoints() -> None:
    turns = ragwire.TurnGroup(max_active=1, max_per_owner=1)
    turns.shut_down()
    with pytest.raises(ragwire.Rejected) as rejected:
        await ragwire.Turn.start(echo, "?", group=turns).commit()
    assert rejected.value.status == 503
    ragwire.Endpoints(echo, turns=turns)
    turn = await ragwire.Turn.start(echo, "?", group=turns).commit()
    assert (await turn.collect())["status"] == "completed"


def test_an_unknown_route_and_a_wrong_method_are_named(serve: Serve) -> None:
    server = serve(ragwire.Endpoints(echo))
    unknown, wrong = httpx.get(f"{server.url}/nope"), httpx.get(f"{server.url}/v1/turns")
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
    assert "no route GET /nope" in unknown.json()["error"]["message"]
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")
    assert "/v1/turns does not support GET" in wrong.json()["error"]["message"]


def test_a_human_answers_over_http(serve: Serve) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(await sink.ask("Which year?", options=["2023", "2024"], request_id="year"))

    server = serve(ragwire.Endpoints(answer))
    with httpx.stream(
        "POST",
        f"{server.url}/v1/turns",
        json={"prompt": "?"},
        headers={"accept": "application/x-ndjson"},
        timeout=PATIENCE,
    ) as response:
        lines = response.iter_lines()
        asked = json.loads(next(lines))
        assert (asked["event"], asked["options"]) == ("input_requested", ["2023", "2024"])
        turn = response.headers["x-ragwire-turn"]
        answered = httpx.post(
            f"{server.url}/v1/turns/{turn}/answer",
            json={"request_id": "year", "response": "2024"},
            timeout=PATIENCE,
        )
        assert answered.status_code < 300, answered.text
        assert text_of([json.loads(line) for line in lines if line]) == "2024"


def test_a_full_group_refuses_with_the_time_to_retry(serve: Serve) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await asyncio.Event().wait()

    turns = ragwire.TurnGroup(max_active=1, max_per_owner=1)
    server = serve(ragwire.Endpoints(answer, turns=turns))
    connection = server.open()
    wait_until(lambda: turns.active == 1)
    refused = httpx.post(f"{server.url}/v1/turns", json={"prompt": "?"}, timeout=PATIENCE)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    connection.close()
    wait_until(lambda: turns.active == 0)


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    program = shutil.which("redis-server")
    assert program, "scripts/test installs it"
    port = free_port()
    server = subprocess.Popen(
        [program, "--port", str(port), "--save", "", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL
    )

    def is_up() -> bool:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return True
        return False

    try:
        wait_until(is_up)
        yield f"redis://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(PATIENCE)


def test_redis_carries_turns_and_sessions_between_hosts(serve: Serve, redis_url: str) -> None:
    def host() -> ragwire.Endpoints:
        # Neither connects before the first request.
        journal, sessions = ragwire.Journal.redis(redis_url), ragwire.Sessions.redis(redis_url)
        return ragwire.Endpoints(echo, journal=journal, sessions=sessions)

    first, second = serve(host()), serve(host(), loop="uvloop")
    started = httpx.post(f"{first.url}/v1/turns", json={"prompt": "why?"}, timeout=PATIENCE)
    assert started.status_code == 200, started.text
    turn = started.headers["x-ragwire-turn"]
    resumed = httpx.get(
        f"{second.url}/v1/turns/{turn}/stream",
        headers={"accept": "application/x-ndjson"},
        timeout=PATIENCE,
    )
    assert text_of([json.loads(line) for line in resumed.text.splitlines()]) == ": why? after 0"
    for server, history in ((first, 0), (second, 2)):
        response = httpx.post(
            f"{server.url}/v1/rag/sessions/s-1/messages",
            json={"prompt": "again"},
            timeout=PATIENCE,
        )
        assert f"after {history}" in response.text


def test_a_redis_that_is_not_there_is_a_typed_error() -> None:
    port = free_port()

    async def connect() -> None:
        await ragwire.Journal.redis(f"redis://127.0.0.1:{port}", retry=0.1, connect_timeout=0.1)

    with pytest.raises(ragwire.RedisError):
        asyncio.run(connect())
    with pytest.raises(ragwire.RedisError):
        ragwire.Journal.redis("http://x")


def test_sessions_in_a_file_survive_a_restart(serve: Serve, tmp_path: Path) -> None:
    program = (
        "import asyncio, sys, ragwire\n"
        "async def main():\n"
        "    sessions = await ragwire.Sessions.open(sys.argv[1])\n"
        "    print(type(sessions).__name__)\n"
        "asyncio.run(main())\n"
    )
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "sessions")],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        assert run.stdout.strip() == "Sessions", run.stderr
