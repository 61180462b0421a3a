"""Connections that break, readers that do not read, and event loops that end."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
from typing import Any

import httpx
import pytest

import ragwire
from conftest import PATIENCE, Serve, ask, read_head, running_loop, text_of, wait_until
from ports import free_port

TOKENS = [f"token {n} " for n in range(50)]


def frames(body: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in body.splitlines() if line.strip()]


def test_a_cut_connection_resumes_with_the_exact_suffix(serve: Serve) -> None:
    goes_on = threading.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        for n, token in enumerate(TOKENS):
            await sink.event("my_step", n=n)
            await sink.text(token)
            if n == 20:
                await asyncio.to_thread(goes_on.wait)

    server = serve(ragwire.Endpoints(answer))
    connection = server.open()
    turn = read_head(connection)["x-ragwire-turn"]
    beginning = b""
    while b'"n":20' not in beginning:
        beginning += connection.recv(4096)
    connection.close()
    seen = [json.loads(line) for line in chunks(beginning).splitlines() if line.endswith(b"}")]
    after = seen[-1]["index"]
    goes_on.set()
    rest = httpx.get(
        f"{server.url}/v1/turns/{turn}/stream",
        headers={"accept": "application/x-ndjson", "last-event-id": str(after)},
        timeout=PATIENCE,
    )
    assert rest.status_code == 200, rest.text
    suffix = frames(rest.text)
    assert suffix[0]["index"] == after + 1
    indexes = [frame["index"] for frame in seen + suffix]
    assert indexes == list(range(len(indexes)))
    assert text_of(seen + suffix) == "".join(TOKENS)
    assert suffix[-1]["end"] == "completed"


def chunks(body: bytes) -> bytes:
    """Removes the sizes of HTTP's chunks, which are alone on their lines."""
    return b"\n".join(line for line in body.replace(b"\r", b"").split(b"\n") if line.startswith(b"{"))


def test_stopping_a_turn_cancels_its_task_and_completes_the_stream(serve: Serve) -> None:
    cancelled = threading.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    server = serve(ragwire.Endpoints(answer))
    connection = server.open()
    turn = read_head(connection)["x-ragwire-turn"]
    stopped = httpx.post(f"{server.url}/v1/turns/{turn}/stop", timeout=PATIENCE)
    assert stopped.status_code in (200, 202, 204), stopped.text
    body = b""
    while b'"end"' not in body:
        body += connection.recv(4096)
    assert b'"end":"stopped"' in body
    assert cancelled.wait(PATIENCE)


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_disconnect_cancels_the_task_at_its_await(serve: Serve, is_committed: bool) -> None:
    started, cancelled = threading.Event(), threading.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        if is_committed:
            await sink.text("Forty")
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    server = serve(ragwire.Endpoints(answer, disconnect_grace=0))
    connection = server.open()
    if is_committed:
        read_head(connection)
    assert started.wait(PATIENCE)
    assert not cancelled.is_set()
    connection.close()
    assert cancelled.wait(PATIENCE)


def test_an_exception_in_mid_answer_is_a_terminal_without_its_text(serve: Serve) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        await asyncio.sleep(0.05)
        raise ValueError("password=hunter2")

    server = serve(ragwire.Endpoints(answer))
    for wire in ("application/x-ndjson", "text/event-stream", "text/plain"):
        response = httpx.post(
            f"{server.url}/v1/turns", json={"prompt": "?"}, headers={"accept": wire}, timeout=PATIENCE
        )
        assert response.status_code == 200
        assert "Forty" in response.text
        assert "hunter2" not in response.text
        assert "chat_failed" in response.text


def test_a_reader_that_never_reads_holds_its_turn_and_bounded_memory(serve: Serve) -> None:
    sent = 0
    ended = threading.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        nonlocal sent
        try:
            while True:
                await sink.text("x" * 4096)
                sent += 1
        finally:
            ended.set()

    # The rest wire has no journal, so nothing but the queue and the sockets holds the text.
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await endpoints(scope, receive, send)
            return
        turn = await ragwire.Turn.start(answer).commit()
        await turn.response("framed")(scope, receive, send)

    endpoints = ragwire.Endpoints(answer)
    server = serve(app)
    connection = server.open()
    wait_until(lambda: sent > 0)
    before = -1
    while before != sent:
        before = sent
        threading.Event().wait(0.3)
    # The socket buffers of both ends, uvicorn's buffer and the queue.
    assert sent * 4096 < 32 << 20
    assert not ended.is_set()
    connection.close()
    assert ended.wait(PATIENCE)


def test_a_thousand_turns_at_once(serve: Serve) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    together = 0

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        nonlocal together
        await sink.event("search", tool="bm25", query=question.prompt)
        together += 1
        while together < 1000:
            await asyncio.sleep(0.01)
        for token in TOKENS:
            await sink.text(token)

    turns = ragwire.TurnGroup(max_active=1000, max_per_owner=1)
    server = serve(ragwire.Endpoints(answer, turns=turns), backlog=2048)

    async def one(client: httpx.AsyncClient, n: int) -> None:
        response = await client.post(
            f"{server.url}/v1/turns", json={"prompt": str(n)}, headers={"accept": "application/x-ndjson"}
        )
        assert response.status_code == 200, response.text
        turn = frames(response.text)
        assert turn[0]["query"] == str(n)
        assert text_of(turn) == "".join(TOKENS)
        assert turn[-1]["end"] == "completed"

    async def everyone() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=6 * PATIENCE, trust_env=False) as client:
            await asyncio.gather(*(one(client, n) for n in range(1000)))

    asyncio.run(everyone())
    wait_until(lambda: turns.active == 0)


def test_one_endpoints_serves_several_event_loops(serve: Serve) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(f"{id(asyncio.get_running_loop())}")

    endpoints = ragwire.Endpoints(answer)
    servers = [serve(endpoints, loop=loop) for loop in ("asyncio", "uvloop", "asyncio")]
    loops = {text_of(ask(server.url)) for server in servers for _ in range(3)}
    assert len(loops) == 3


def test_a_turn_is_resumed_on_another_event_loop(serve: Serve) -> None:
    goes_on = threading.Event()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        await asyncio.to_thread(goes_on.wait)
        await sink.text("-two.")

    endpoints = ragwire.Endpoints(answer)
    first, second = serve(endpoints), serve(endpoints, loop="uvloop")
    connection = first.open()
    turn = read_head(connection)["x-ragwire-turn"]
    answered: list[str] = []

    def resume() -> None:
        response = httpx.get(
            f"{second.url}/v1/turns/{turn}/stream",
            headers={"accept": "application/x-ndjson"},
            timeout=PATIENCE,
        )
        answered.append(text_of(frames(response.text)))

    reader = threading.Thread(target=resume)
    reader.start()
    goes_on.set()
    reader.join(PATIENCE)
    assert answered == ["Forty-two."]
    connection.close()


def test_turns_of_a_loop_that_was_closed_end() -> None:
    group = ragwire.TurnGroup()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        await asyncio.Event().wait()

    async def leave() -> None:
        turn = await ragwire.Turn.start(answer, group=group).commit()
        assert group.active == 1
        leaked.append(turn)

    leaked: list[ragwire.Turn] = []
    asyncio.run(leave())

    async def read() -> Any:
        return await asyncio.wait_for(leaked[0].collect(), PATIENCE)

    collected = asyncio.run(read())
    assert (collected["text"], collected["status"]) == ("Forty", "failed")
    wait_until(lambda: group.active == 0)


def test_shutting_down_ends_every_turn_with_its_terminal(serve: Serve) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text("Forty")
        await asyncio.Event().wait()

    server = serve(ragwire.Endpoints(answer), timeout_graceful_shutdown=1)
    connection = server.open()
    read_head(connection)
    server.close()
    body = b""
    while part := connection.recv(4096):
        body += part
    assert b"Forty" in body
    assert b'"end":"failed"' in body
    assert b'"code":"shutting_down"' in body


INTERRUPTED = """
import asyncio, sys
import uvicorn, ragwire

async def answer(question, sink):
    await sink.text("Forty")
    print("started", flush=True)
    await asyncio.Event().wait()

uvicorn.run(ragwire.Endpoints(answer), port=int(sys.argv[1]), log_level="warning", timeout_graceful_shutdown=1)
"""


def test_ctrl_c_ends_every_turn_with_its_terminal() -> None:
    port = free_port()
    server = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        body = b""

        def is_up() -> bool:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except OSError:
                return False
            return True

        wait_until(is_up)
        with httpx.stream(
            "POST",
            f"http://127.0.0.1:{port}/v1/turns",
            json={"prompt": "?"},
            headers={"accept": "application/x-ndjson"},
            timeout=PATIENCE,
        ) as response:
            for part in response.iter_bytes():
                if not body:
                    server.send_signal(signal.SIGINT)
                body += part
        assert b'"code":"shutting_down"' in body
    finally:
        server.wait(PATIENCE)


FORKED = """
import asyncio, os, sys
import ragwire

async def answer(question, sink):
    await sink.text("Forty-two.")

async def once():
    turn = await ragwire.Turn.start(answer).commit()
    return (await turn.collect())["text"]

if sys.argv[1] == "used":
    assert asyncio.run(once()) == "Forty-two."
child = os.fork()
if child == 0:
    try:
        print(asyncio.run(once()), flush=True)
    except ragwire.ForkError as error:
        print(error.code, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.parametrize(("before", "printed"), [("imported", "Forty-two."), ("used", "forked")])
def test_a_fork_works_before_the_first_turn_and_is_refused_after_it(before: str, printed: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORKED, before], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert run.stdout.strip() == printed, run.stderr


def test_other_threads_may_send() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await asyncio.gather(*(asyncio.to_thread(sink.text, "x" * 1000) for _ in range(200)))

    async def collect() -> Any:
        turn = await ragwire.Turn.start(answer).commit()
        return await asyncio.wait_for(turn.collect(), PATIENCE)

    assert asyncio.run(collect())["text"] == "x" * 200_000


def test_a_large_body_arrives_in_pieces(serve: Serve) -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> None:
        await sink.text(str(len(question.prompt)))

    server = serve(ragwire.Endpoints(answer, max_question_bytes=4 << 20))
    assert text_of(ask(server.url, "é" * (1 << 20))) == str(1 << 20)
    refused = httpx.post(f"{server.url}/v1/turns", json={"prompt": "x" * (5 << 20)}, timeout=PATIENCE)
    assert refused.status_code in (413, 422)
