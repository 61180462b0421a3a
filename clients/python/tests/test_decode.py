"""`ragwire.decode` over iterables, async iterables and responses."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Iterator
from typing import Any

import aiohttp
import httpx
import pytest
import ragwire
from aiohttp import web
from ragwire import CustomItem, DecodeError, EndItem, EventItem, TextItem, TruncatedError

STREAM = (
    b'{"event":"search","tool":"bm25"}\n{"event":"acme.step","n":1}\n'
    b'\x1dForty-\xc3\xa4two.\x1e{"citations":[],"tools_used":["bm25"],"request":"r-1"}'
)
ITEMS = [
    EventItem({"event": "search", "tool": "bm25"}),
    CustomItem("acme.step", {"n": 1}),
    TextItem("Forty-ätwo."),
    EndItem("completed", {"citations": [], "tools_used": ["bm25"], "request": "r-1"}),  # type: ignore[typeddict-unknown-key]
]


class Source:
    """Chunks that know whether they were closed."""

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = iter(chunks)
        self.is_closed = False

    def __iter__(self) -> Iterator[Any]:
        return self.chunks

    def close(self) -> None:
        self.is_closed = True


class AsyncSource:
    """The same on an event loop."""

    def __init__(self, chunks: list[Any]) -> None:
        self.chunks = iter(chunks)
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[Any]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_items_come_from_an_iterable_of_bytes(kind: Any) -> None:
    items = list(ragwire.decode("framed", [kind(STREAM)]))
    assert items == ITEMS
    end = items[-1]
    assert isinstance(end, EndItem)
    assert end.members["request"] == "r-1"


async def test_items_come_from_an_async_iterable() -> None:
    source = AsyncSource([STREAM[:50], STREAM[50:]])
    items = [item async for item in ragwire.decode("framed", source)]
    assert [item for item in items if not isinstance(item, TextItem)] == [ITEMS[0], ITEMS[1], ITEMS[3]]
    assert "".join(item.text for item in items if isinstance(item, TextItem)) == "Forty-ätwo."
    assert source.is_closed


def test_an_item_is_yielded_as_soon_as_its_bytes_are_there() -> None:
    source = Source([STREAM[:33], pytest.fail])
    items = ragwire.decode("framed", source)
    assert next(items) == ITEMS[0]
    items.close()
    assert source.is_closed


def test_a_broken_stream_raises_after_its_items_and_reads_no_further() -> None:
    source = Source([STREAM[:33] + b"no event\n", b"more"])
    items = ragwire.decode("framed", source)
    assert next(items) == ITEMS[0]
    with pytest.raises(DecodeError) as raised:
        next(items)
    assert raised.value.code == "bad_event"
    assert source.is_closed
    assert next(source.chunks) == b"more"


async def test_a_truncated_stream_never_passes_for_a_complete_one() -> None:
    for at, phase in [(0, "events"), (33, "events"), (70, "text"), (len(STREAM) - 1, "trailer")]:
        with pytest.raises(TruncatedError) as raised:
            list(ragwire.decode("framed", [STREAM[:at]]))
        assert (raised.value.code, raised.value.phase) == ("truncated", phase)
        with pytest.raises(TruncatedError):
            async for _ in ragwire.decode("framed", AsyncSource([STREAM[:at]])):
                pass


def test_half_a_character_at_the_end_is_an_item_before_the_error() -> None:
    items = ragwire.decode("framed", [b"\x1dForty-\xc3"])
    assert [next(items), next(items)] == [TextItem("Forty-"), TextItem("\ufffd")]
    with pytest.raises(TruncatedError):
        next(items)


@pytest.mark.parametrize("bad", ["text", 5, None])
def test_a_chunk_that_is_not_bytes_is_a_type_error(bad: Any) -> None:
    with pytest.raises(TypeError, match="chunks must be bytes, not"):
        list(ragwire.decode("framed", [bad]))


@pytest.mark.parametrize("bad", [STREAM, "text", 5])
def test_chunks_that_are_no_iterable_of_bytes_are_a_type_error(bad: Any) -> None:
    with pytest.raises(TypeError, match="chunks must be an iterable of bytes"):
        ragwire.decode("framed", bad)


def test_wrong_options_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="unknown wire: use one of framed sse ndjson"):
        ragwire.decode("odt", [])  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="at least 1 byte"):
        ragwire.decode("framed", [], max_line_bytes=0)


def test_a_line_without_an_end_is_refused_at_the_limit() -> None:
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 1024

    with pytest.raises(DecodeError) as raised:
        list(ragwire.decode("ndjson", endless(), max_line_bytes=4096, max_trailer_bytes=8192))
    assert raised.value.code == "line_too_long"
    assert taken == 9


def test_errors_survive_copies_and_processes() -> None:
    errors: list[ragwire.ReadError] = [
        DecodeError("gap", "a frame is missing"),
        TruncatedError("text"),
        ragwire.RefusedError(503, "busy", "Full.", True, 2.0),
        ragwire.DisconnectedError("gone", "t", 3),
    ]
    for error in errors:
        for same in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert type(same) is type(error)
            assert (str(same), same.__dict__) == (str(error), error.__dict__)


def test_a_response_of_httpx_is_read() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=iter([STREAM[:9], STREAM[9:]])))
    with httpx.Client(transport=transport) as client, client.stream("GET", "http://test/") as response:
        assert list(ragwire.decode("framed", response)) == ITEMS


async def test_the_bytes_of_an_async_response_of_httpx_are_read() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=AsyncSource([STREAM])))
    async with httpx.AsyncClient(transport=transport) as client, client.stream("GET", "http://test/") as response:
        assert [item async for item in ragwire.decode("framed", response.aiter_bytes())] == ITEMS


async def test_an_async_response_of_httpx_itself_is_refused_with_the_fix() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=STREAM)

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    async with httpx.AsyncClient() as client, client.stream("GET", url) as response:
        with pytest.raises(TypeError, match=r"response of httpx.AsyncClient: pass response.aiter_bytes\(\)"):
            ragwire.decode("framed", response)
        assert [item async for item in ragwire.decode("framed", response.aiter_bytes())] == ITEMS
    await runner.cleanup()

    async def fetch() -> bytes:
        return STREAM

    unawaited = fetch()
    with pytest.raises(TypeError, match="not coroutine: await it first"):
        ragwire.decode("framed", unawaited)  # type: ignore[call-overload]
    await unawaited


async def test_a_response_of_aiohttp_is_read() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=STREAM)

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/") as response:
        assert [item async for item in ragwire.decode("framed", response)] == ITEMS
    await runner.cleanup()


def test_withdraw_counts_characters() -> None:
    assert ragwire.withdraw("a\U0001f600bc", 2) == "a\U0001f600"
    assert ragwire.withdraw("ab", 9) == "ab"
