"""The clients: exact suffixes through every cut, on each HTTP library."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import httpx
import pytest
import ragwire
from ragwire import CustomItem, DisconnectedError, EndItem, Item, RefusedError, Retry, SnapshotItem, TextItem
from turn_server import FRAMES, TURN, TurnServer, turn_server

NOW = Retry(first_delay=0.0)
KINDS = ["httpx", "async httpx", "aiohttp"]
Call = Callable[[Any], Any]


def read(kind: str, server: TurnServer, call: Call, **options: Any) -> list[Item]:
    """Return the items of an answer, from the client of this kind."""
    items: list[Item] = []
    options = {"retry": NOW, **options}

    async def run(http: Any) -> None:
        async with http, ragwire.AsyncClient(server.url, http=http, **options) as client:
            async for item in call(client):
                items.append(item)

    async def on_loop() -> None:
        await run(httpx.AsyncClient() if kind == "async httpx" else aiohttp.ClientSession())

    if kind == "httpx":
        with ragwire.Client(server.url, **options) as client:
            for item in call(client):
                items.append(item)
    else:
        asyncio.run(on_loop())
    return items


def ask(client: Any) -> Any:
    return client.ask("What?")


def text(items: list[Item]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextItem))


WHOLE = "".join(frame.get("text", "") for frame in FRAMES)


@pytest.mark.parametrize("wire", ["ndjson", "sse"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_breaks_again_and_again_loses_and_repeats_nothing(kind: str, wire: Any) -> None:
    cuts = [200, 1, 0, 60, 300, 61, 62, 100]
    with turn_server(cuts) as server:
        items = read(kind, server, ask, wire=wire)
    assert [item.index for item in items] == list(range(len(FRAMES)))
    assert text(items) == WHOLE
    assert isinstance(items[-1], EndItem)
    assert [item for item in items if isinstance(item, CustomItem)][0].data == {"n": 1}
    method, path, headers, body = server.requests[0]
    assert (method, path, json.loads(body)) == ("POST", "/v1/turns", {"prompt": "What?"})
    assert len(server.requests) >= len(cuts) and {request[0] for request in server.requests[1:]} == {"GET"}
    assert headers["accept"] == {"ndjson": "application/x-ndjson", "sse": "text/event-stream"}[wire]


def test_every_cut_is_survived() -> None:
    with turn_server() as server:
        assert text(read("httpx", server, ask)) == WHOLE
    with turn_server(list(range(0, 1300, 7))) as server:
        for _ in range(40):
            assert text(read("httpx", server, ask)) == WHOLE


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_full_for_a_moment_is_asked_again_but_a_question_is_not_repeated(kind: str) -> None:
    with turn_server([50], [None, 503, 502]) as server:
        assert text(read(kind, server, ask)) == WHOLE
    with turn_server([], [503]) as server:
        with pytest.raises(RefusedError) as raised:
            read(kind, server, ask)
        error = raised.value
        assert (error.status, error.code, error.message, error.recoverable) == (503, "busy", "Full.", True)
        assert error.retry_after == 0.0
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("status", [404, 410, 500])
def test_a_turn_that_cannot_be_resumed_is_an_error(kind: str, status: int) -> None:
    items: list[Item] = []
    with turn_server([120], [None, status]) as server, pytest.raises(RefusedError) as raised:
        items = read(kind, server, ask)
    assert raised.value.status == status
    assert items == []
    assert len(server.requests) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_attempts_are_limited_and_the_error_says_where_to_continue(kind: str) -> None:
    with turn_server([120] + [0] * 99) as server:
        with pytest.raises((DisconnectedError, ragwire.TruncatedError)):
            read(kind, server, ask, retry=Retry(attempts=3, first_delay=0.0))
        assert len(server.requests) == 4
    # The server is gone: nothing was asked.
    with pytest.raises(DisconnectedError) as raised:
        read(kind, server, lambda client: client.resume(TURN, 5), retry=Retry(attempts=2, first_delay=0.0))
    assert (raised.value.turn, raised.value.index, raised.value.code) == (TURN, 5, "disconnected")


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_keeps_no_turns_is_not_asked_again(kind: str) -> None:
    with turn_server([120], keeps_turns=False) as server:
        with pytest.raises((DisconnectedError, ragwire.TruncatedError)):
            read(kind, server, ask)
        assert len(server.requests) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_turn_is_resumed_anywhere(kind: str) -> None:
    with turn_server([30]) as server:
        items = read(kind, server, lambda client: client.resume(TURN, 7))
        assert [item.index for item in items] == list(range(7, len(FRAMES)))
        assert read(kind, server, lambda client: client.resume(TURN, len(FRAMES))) == []


def test_a_snapshot_replaces_what_the_server_dropped() -> None:
    with turn_server(first=3) as server:
        items = read("httpx", server, ask)
    assert isinstance(items[0], SnapshotItem)
    assert (items[0].text, items[0].index, items[0].events[0].name) == ("0 1 ", 3, "search")
    assert [item.index for item in items] == list(range(3, len(FRAMES)))


def test_a_server_that_skips_frames_is_an_error() -> None:
    with turn_server([120]) as server:
        with pytest.raises(ragwire.DecodeError) as raised:
            with ragwire.Client(server.url, retry=NOW) as client:
                for item in client.ask("What?"):
                    # From here on the server counts wrong.
                    server.__class__, server._first = Skipping, 9
        assert raised.value.code == "gap"


class Skipping(TurnServer):
    """Sends later frames than those it was asked for."""

    async def _respond(self, path: str, headers: dict[str, str], writer: asyncio.StreamWriter) -> None:
        await super()._respond("/v1/turns/x/stream?from=9", headers, writer)


@pytest.mark.parametrize("kind", KINDS)
def test_stop_and_answer_return_what_the_server_says(kind: str) -> None:
    def calls(client: Any) -> list[Any]:
        return [client.stop(TURN), client.answer("a/b", "q", {"x": 1})]

    async def on_loop(url: str) -> list[Any]:
        http: Any = httpx.AsyncClient() if kind == "async httpx" else aiohttp.ClientSession()
        async with http, ragwire.AsyncClient(url, http=http, headers={"authorization": "Bearer x"}) as client:
            results: list[Any] = [await call for call in calls(client)]
            return results

    with turn_server() as server:
        if kind == "httpx":
            with ragwire.Client(server.url + "/", headers={"authorization": "Bearer x"}) as client:
                results = calls(client)
        else:
            results = asyncio.run(on_loop(server.url + "/"))
    assert results == [True, False]
    assert [request[1] for request in server.requests] == ["/v1/turns/turn-1/stop", "/v1/turns/a%2Fb/answer"]
    assert json.loads(server.requests[1][3]) == {"request_id": "q", "response": {"x": 1}}
    assert all(request[2]["authorization"] == "Bearer x" for request in server.requests)


async def test_a_refused_stop_is_an_error_with_its_code() -> None:
    with turn_server([], [404]) as server:
        async with ragwire.AsyncClient(server.url) as client:
            with pytest.raises(RefusedError) as raised:
                await client.stop("unknown")
    assert (raised.value.status, raised.value.code) == (404, "busy")


async def test_a_page_of_a_proxy_is_an_error_too() -> None:
    with turn_server([], [404]) as server:
        http = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(502, text="<html>")))
        async with http, ragwire.AsyncClient(server.url, http=http) as client:
            with pytest.raises(RefusedError) as raised:
                await client.stop("t")
    assert (raised.value.status, raised.value.code, raised.value.recoverable) == (502, "http_502", True)


def test_an_answer_is_read_once() -> None:
    with turn_server() as server, ragwire.Client(server.url) as client:
        answer = client.ask("What?")
        assert [answer.turn, answer.next_index] == [None, 0]
        next(iter(answer))
        assert [answer.turn, answer.next_index] == [TURN, 1]
        with pytest.raises(RuntimeError, match="read once"):
            list(answer)


def test_only_known_libraries_are_accepted() -> None:
    with pytest.raises(TypeError, match="httpx.AsyncClient or an aiohttp.ClientSession, not object"):
        ragwire.AsyncClient("http://test", http=object())  # type: ignore[arg-type]


def test_delays_double_up_to_their_limit() -> None:
    retry = Retry(first_delay=0.25, max_delay=10.0)
    for attempt, longest in [(0, 0.25), (1, 0.5), (5, 8.0), (6, 10.0), (10_000, 10.0)]:
        delays = [retry.delay(attempt) for _ in range(200)]
        assert all(0 <= delay <= longest for delay in delays)
        assert max(delays) > longest / 2
