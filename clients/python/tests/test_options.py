"""Every option of `Endpoints` has its effect; the default has none."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from typing import Any

import httpx
import pytest
import websockets

import ragwire
from conftest import PATIENCE, Serve, ask, read_head, text_of, wait_until
from ragwire._endpoints import _peer

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
IMAGE = "data:image/png;base64,AAAA"


async def echo(question: ragwire.Question, sink: ragwire.Sink) -> None:
    await sink.text(json.dumps({"files": question.attachments, "schema": question.output_schema, **question.extra}))


async def wait(question: ragwire.Question, sink: ragwire.Sink) -> None:
    await sink.text("Forty")
    await asyncio.Event().wait()


def post(url: str, body: Any, **headers: str) -> httpx.Response:
    return httpx.post(url, json=body, headers={name.replace("_", "-"): value for name, value in headers.items()}, timeout=PATIENCE)


def completion(url: str, **members: Any) -> httpx.Response:
    return post(f"{url}/v1/chat/completions", {"model": "ragwire", "messages": [{"role": "user", "content": "?"}], **members})


def content(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return json.loads(response.json()["choices"][0]["message"]["content"])


def chat(url: str, file: str) -> httpx.Response:
    parts = [{"type": "text", "text": "?"}, {"type": "file", "mediaType": "image/png", "url": file}]
    message = {"id": "m", "role": "user", "parts": parts}
    return post(f"{url}/api/chat", {"id": "c", "trigger": "submit-message", "messages": [message]})


def test_name_and_mode(serve: Serve) -> None:
    for options, name, mode in (({}, "ragwire", "hybrid"), ({"name": "acme", "mode": "lexical"}, "acme", "lexical")):
        server = serve(ragwire.Endpoints(echo, **options))
        assert httpx.get(f"{server.url}/v1/models", timeout=PATIENCE).json()["data"][0]["id"] == name
        streamed = post(f"{server.url}/v1/rag/sessions/s/messages/stream", {"prompt": "?"})
        assert json.loads(streamed.text.partition("\x1e")[2])["mode"] == mode


def test_attachments(serve: Serve) -> None:
    refused = chat(serve(ragwire.Endpoints(echo)).url, IMAGE)
    assert refused.status_code in (415, 422), refused.text
    # Beyond what the longest conversation has.
    large = IMAGE + "A" * 3_000_000
    assert chat(serve(ragwire.Endpoints(echo, attachments=True)).url, large).status_code == 200
    server = serve(ragwire.Endpoints(echo, attachments=True, max_attachment_bytes=100_000))
    assert r'\"media_type\": \"image/png\"' in chat(server.url, IMAGE).text
    assert chat(server.url, large).status_code == 413


def test_structured_results(serve: Serve) -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
    assert completion(serve(ragwire.Endpoints(echo)).url, response_format=wanted).status_code == 400
    server = serve(ragwire.Endpoints(echo, structured_results=True))
    assert content(completion(server.url, response_format=wanted))["schema"] == SCHEMA


def test_openai_parameters(serve: Serve) -> None:
    assert completion(serve(ragwire.Endpoints(echo)).url, temperature=0.5).status_code == 400
    server = serve(ragwire.Endpoints(echo, openai_parameters=["temperature"]))
    assert content(completion(server.url, temperature=0.5))["temperature"] == 0.5


@pytest.mark.parametrize(
    ("options", "origin", "host", "status"),
    [
        ({}, "https://app.example", "localhost", 403),
        ({"allow_origins": ["https://app.example"]}, "https://app.example", "localhost", 200),
        ({"allow_origins": ["*"]}, "https://any.example", "localhost", 200),
        ({}, "http://rag.example", "rag.example", 403),
        ({"allow_hosts": ["rag.example"]}, "http://rag.example", "rag.example", 200),
    ],
)
def test_allow_origins_and_allow_hosts(serve: Serve, options: Any, origin: str, host: str, status: int) -> None:
    server = serve(ragwire.Endpoints(echo, **options))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {}}
    answered = post(f"{server.url}/mcp", ping, origin=origin, host=host, accept="application/json, text/event-stream")
    assert answered.status_code == status, answered.text


def test_list_anonymous(serve: Serve) -> None:
    for options, is_listed in (({}, False), ({"list_anonymous": True}, True)):
        server = serve(ragwire.Endpoints(echo, **options))
        assert post(f"{server.url}/v1/rag/sessions/s-1/messages", {"prompt": "?"}).status_code == 200
        sessions = httpx.get(f"{server.url}/v1/sessions", timeout=PATIENCE)
        assert ("s-1" in sessions.text) == is_listed, sessions.text


def slow_body(port: int) -> socket.socket:
    """Begins a question whose body never comes."""
    connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
    connection.sendall(
        b"POST /v1/turns HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 4000\r\n\r\n{"
    )
    return connection


def test_body_timeout(serve: Serve) -> None:
    server = serve(ragwire.Endpoints(echo, body_timeout=0.2))
    assert read_head(slow_body(server.port))["status"] == "408"


def test_min_body_rate_and_max_body_memory_are_passed_on(serve: Serve) -> None:
    # A body in pieces, each within `body_timeout`, but slower than the rate.
    server = serve(ragwire.Endpoints(echo, body_timeout=0.5, min_body_rate=1_000_000))
    connection = slow_body(server.port)
    for _ in range(8):
        time.sleep(0.2)
        try:
            connection.sendall(b" ")
        except OSError:
            break
    assert read_head(connection)["status"] == "408"
    server = serve(ragwire.Endpoints(echo, max_body_memory=1000))
    assert post(f"{server.url}/v1/turns", {"prompt": "x" * 4000}).status_code in (413, 503)


async def test_client_share_limits_each_client_but_not_all() -> None:
    """Three questions of one address: one runs, one waits, one is refused. Another address runs."""
    endpoints = ragwire.Endpoints(wait, client_share=1)

    def at(address: str) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app=endpoints, client=(address, 1))
        return httpx.AsyncClient(transport=transport, base_url="http://test", timeout=PATIENCE)

    async def question(client: httpx.AsyncClient) -> int:
        return (await client.post("/v1/turns", json={"prompt": "?"})).status_code

    async with at("192.0.2.1") as first, at("192.0.2.2") as second:
        tasks = [asyncio.create_task(question(first)) for _ in range(3)]
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
        assert [task.result() for task in done] == [429]
        other = asyncio.create_task(question(second))
        await asyncio.sleep(0.1)
        assert not other.done()
        await endpoints.shut_down()
        assert await other == 200
        assert sorted([await task for task in tasks])[0] == 200


@pytest.mark.parametrize(
    ("client", "peer"),
    [
        (None, None),
        (("", 0), None),
        (("127.0.0.1", 5), "127.0.0.1 5"),
        (("::1", 5), "::1 5"),
        (("192.0.2.1", 5), "192.0.2.1"),
        (("2001:db8:1:2:3:4:5:6", 5), "2001:db8:1:2::/64"),
        (("::ffff:192.0.2.1", 5), "192.0.2.1"),
        (("fe80::1%eth0", 5), "fe80::/64"),
        (("host:name", 5), "host:name"),
    ],
)
def test_the_name_of_a_peer(client: Any, peer: str | None) -> None:
    assert _peer({"client": client}) == peer


async def test_max_sockets(serve: Serve) -> None:
    server = serve(ragwire.Endpoints(echo, max_sockets=1))
    address = server.url.replace("http", "ws", 1) + "/api/v1/socket"
    async with websockets.connect(address, open_timeout=PATIENCE):
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(address, open_timeout=PATIENCE)
        assert refused.value.response.status_code == 503


def test_keep_alive(serve: Serve) -> None:
    def first_filler(**options: Any) -> bool:
        server = serve(ragwire.Endpoints(wait, total=0.6, **options))
        return ":" in [line[:1] for line in post(f"{server.url}/v1/turns", {"prompt": "?"}, accept="text/event-stream").text.splitlines()]

    assert first_filler(keep_alive=0.1)
    assert not first_filler(keep_alive=None)


@pytest.mark.parametrize("option", ["idle", "total"])
def test_time_limits_end_a_turn(serve: Serve, option: str) -> None:
    frames = ask(serve(ragwire.Endpoints(wait, **{option: 0.2})).url)
    assert text_of(frames) == "Forty"
    assert (frames[-1]["end"], frames[-1]["error"]["code"]) == ("failed", "timeout")


def test_write_stall_gives_up_a_reader_that_accepts_nothing(serve: Serve) -> None:
    async def endless(question: ragwire.Question, sink: ragwire.Sink) -> None:
        while True:
            await sink.text("x" * 4096)

    turns = ragwire.TurnGroup(max_per_owner=1)
    server = serve(ragwire.Endpoints(endless, turns=turns, write_stall=0.3, disconnect_grace=0, total=None))
    connection = server.open()
    wait_until(lambda: turns.active == 1)
    # Nothing is read, and the connection stays open.
    wait_until(lambda: turns.active == 0)
    connection.close()
