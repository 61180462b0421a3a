"""The clients with a whole server, through a proxy that breaks connections."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import httpx
import pytest
import ragwire
from ragwire import EndItem, Item, Retry, TextItem
from serving import served

WORDS = [f"{n} " for n in range(60)]
NOW = Retry(first_delay=0.01)


async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
    await sink.event("search", tool="bm25", query=question.prompt)
    for word in WORDS:
        await sink.text(word)
        await asyncio.sleep(0.002)
    if question.prompt == "wait":
        await asyncio.Event().wait()
    return ragwire.Metadata(tools_used=["bm25"])


@contextmanager
def proxy(url: str, cuts: list[int]) -> Iterator[str]:
    """Break connection N after `cuts[N]` bytes of the response, and later ones never."""
    host, port = url.removeprefix("http://").split(":")
    rest = iter(cuts)
    listener = socket.create_server(("127.0.0.1", 0))

    def pump(source: socket.socket, target: socket.socket, room: int | None) -> None:
        try:
            while data := source.recv(65536):
                part = data if room is None else data[:room]
                target.sendall(part)
                if room is not None:
                    room -= len(part)
                    if room == 0:
                        break
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            upstream = socket.create_connection((host, int(port)))
            threading.Thread(target=pump, args=(client, upstream, None), daemon=True).start()
            threading.Thread(target=pump, args=(upstream, client, next(rest, None)), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def check(items: list[Item]) -> None:
    assert [item.index for item in items] == list(range(len(items)))
    assert "".join(item.text for item in items if isinstance(item, TextItem)) == "".join(WORDS)
    end = items[-1]
    assert isinstance(end, EndItem)
    assert (end.status, end.metadata["tools_used"]) == ("completed", ["bm25"])


@pytest.mark.parametrize("wire", ["ndjson", "sse"])
def test_the_exact_rest_follows_each_broken_connection(wire: Any) -> None:
    cuts = [700, 300, 450, 800, 301]
    with served(ragwire.Endpoints(answer)) as url:
        with proxy(url, cuts) as broken, ragwire.Client(broken, wire=wire, retry=NOW) as client:
            check(list(client.ask("what?")))

        async def read(http: Any, broken: str) -> None:
            async with http, ragwire.AsyncClient(broken, http=http, wire=wire, retry=NOW) as client:
                check([item async for item in client.ask("what?")])

        async def both() -> None:
            with proxy(url, cuts) as broken:
                await read(httpx.AsyncClient(), broken)
            with proxy(url, cuts) as broken:
                await read(aiohttp.ClientSession(), broken)

        asyncio.run(both())


def test_stop_ends_the_turn_for_its_reader_and_later_ones() -> None:
    with served(ragwire.Endpoints(answer)) as url, ragwire.Client(url) as client:
        reading, last, stopped = client.ask("wait"), None, None
        for last in reading:
            if isinstance(last, TextItem) and stopped is None:
                assert reading.turn is not None
                stopped = client.stop(reading.turn)
        assert stopped is True
        assert isinstance(last, EndItem) and last.status == "stopped"
        assert reading.turn is not None
        assert client.stop(reading.turn) is False
        *_, again = client.resume(reading.turn)
        assert isinstance(again, EndItem) and again.status == "stopped"
        assert list(client.resume(reading.turn, reading.next_index)) == []


def test_an_unknown_turn_is_refused_with_its_code() -> None:
    with served(ragwire.Endpoints(answer)) as url, ragwire.Client(url) as client:
        with pytest.raises(ragwire.RefusedError) as raised:
            list(client.resume("0" * 32))
        assert (raised.value.status, raised.value.code) == (404, "unknown_turn")
