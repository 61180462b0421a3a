"""Reading streams: bytes in, typed items out. The decoders are those of the Rust core."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Collection, Generator, Iterable, Iterator
from typing import Literal, Optional, Protocol, Union, cast, overload, runtime_checkable

from ragwire import _ragwire
from ragwire._items import DecodeError, Item, Phase, TruncatedError

Wire = Literal[
    "framed",
    "sse",
    "ndjson",
    "ai_sdk",
    "ag_ui",
    "openai",
    "responses",
    "ollama",
    "langgraph",
    "forge",
    "session_chat",
    "eve",
    "trustgraph",
    "plain",
]
"""The wires that can be decoded; PROTOCOL.md has a section about each."""

Chunk = Union[bytes, bytearray, memoryview]


@runtime_checkable
class SyncResponse(Protocol):
    """A response that is read without an event loop, such as httpx's."""

    def iter_bytes(self) -> Iterator[bytes]: ...


class StreamReader(Protocol):
    """The body of an aiohttp response."""

    def iter_any(self) -> AsyncIterable[bytes]: ...


@runtime_checkable
class AiohttpResponse(Protocol):
    """A response of aiohttp."""

    @property
    def content(self) -> StreamReader: ...


class Decoder:
    """Decodes one stream, for bytes that come from neither an iterable nor a response.

    It holds one unfinished line or trailer, within the limits, however the bytes are split.
    """

    def __init__(
        self,
        wire: Wire,
        *,
        max_line_bytes: Optional[int] = None,
        max_trailer_bytes: Optional[int] = None,
        answer_nodes: Collection[str] = (),
    ) -> None:
        """`max_line_bytes` (default: 262144) limits an event, `max_trailer_bytes` (default: 1048576) the end.

        On the wire `langgraph`, text of nodes that `answer_nodes` lacks is a thought; by default
        the text of every node is the answer. Raises ValueError for an unknown wire or a limit below 1.
        """
        self._decoder = _ragwire.Decoder(wire, max_line_bytes, max_trailer_bytes, list(answer_nodes))

    def feed(self, chunk: Chunk) -> list[Item]:
        """Take the next bytes and return the items that they complete.

        Bytes after an error are ignored; `finish` raises it. Raises TypeError for anything but
        bytes, and ValueError after `finish`.
        """
        return self._decoder.feed(chunk)

    @property
    def has_failed(self) -> bool:
        """Whether the stream broke a rule, so that nothing more is decoded."""
        return self._decoder.has_failed

    def finish(self) -> Generator[Item, None, None]:
        """Yield the last items and report the end of the bytes.

        Raises DecodeError if the stream broke a rule, and TruncatedError if it ended early; both
        after the last items.
        """
        items, status, code, message = self._decoder.finish()
        yield from items
        if status == "truncated":
            raise TruncatedError(cast("Phase", code))
        if status == "invalid":
            raise DecodeError(code, message)


@overload
def decode(
    wire: Wire,
    chunks: Union[AsyncIterable[Chunk], AiohttpResponse],
    *,
    max_line_bytes: Optional[int] = None,
    max_trailer_bytes: Optional[int] = None,
    answer_nodes: Collection[str] = (),
) -> AsyncGenerator[Item, None]: ...
@overload
def decode(
    wire: Wire,
    chunks: Union[Iterable[Chunk], SyncResponse],
    *,
    max_line_bytes: Optional[int] = None,
    max_trailer_bytes: Optional[int] = None,
    answer_nodes: Collection[str] = (),
) -> Generator[Item, None, None]: ...
def decode(
    wire: Wire,
    chunks: Union[AsyncIterable[Chunk], AiohttpResponse, Iterable[Chunk], SyncResponse],
    *,
    max_line_bytes: Optional[int] = None,
    max_trailer_bytes: Optional[int] = None,
    answer_nodes: Collection[str] = (),
) -> Union[Generator[Item, None, None], AsyncGenerator[Item, None]]:
    """Yield the items of a stream as they arrive; the last one of a complete stream is an `EndItem`.

    `chunks` is an iterable of bytes, an async iterable of bytes, or an open response of httpx or
    aiohttp; the result is an iterator or an async iterator accordingly. For a response of
    `httpx.AsyncClient` pass `response.aiter_bytes()`. Closing the iterator closes `chunks`.
    `Decoder` describes the options.

    Raises, after the items that came before:

    - DecodeError if the stream breaks a rule of the wire,
    - TruncatedError if it ends before its end,
    - whatever `chunks` raises.

    Raises at once: ValueError for an unknown wire or a limit below 1; TypeError if `chunks` is not
    one of these kinds. A chunk that is not bytes is a TypeError too.
    """
    decoder = Decoder(
        wire, max_line_bytes=max_line_bytes, max_trailer_bytes=max_trailer_bytes, answer_nodes=answer_nodes
    )
    name = type(chunks).__name__
    if name in ("str", "bytes", "bytearray", "memoryview"):
        raise TypeError(f"chunks must be an iterable of bytes, not {name}: {'encode it' if name == 'str' else 'pass [chunk]'}")
    # httpx first: the body of an open response of httpx cannot be asked for as `content`.
    if isinstance(chunks, SyncResponse):
        stream = getattr(chunks, "stream", None)
        if hasattr(stream, "__aiter__") and not hasattr(stream, "__iter__"):
            raise TypeError("this is a response of httpx.AsyncClient: pass response.aiter_bytes()")
        return _decode(decoder, chunks.iter_bytes())
    if isinstance(chunks, AiohttpResponse) and hasattr(chunks.content, "iter_any"):
        return _decode_async(decoder, chunks.content.iter_any())
    if isinstance(chunks, AsyncIterable):
        return _decode_async(decoder, chunks)
    if isinstance(chunks, Iterable):
        return _decode(decoder, chunks)
    advice = ": await it first" if hasattr(chunks, "__await__") else ""
    raise TypeError(f"chunks must be an iterable of bytes or a response of httpx or aiohttp, not {name}{advice}")


def _decode(decoder: Decoder, chunks: Iterable[Chunk]) -> Generator[Item, None, None]:
    try:
        for chunk in chunks:
            yield from decoder.feed(chunk)
            if decoder.has_failed:
                break
        yield from decoder.finish()
    finally:
        close: Optional[Callable[[], object]] = getattr(chunks, "close", None)
        if close is not None:
            close()


async def _decode_async(decoder: Decoder, chunks: AsyncIterable[Chunk]) -> AsyncGenerator[Item, None]:
    try:
        async for chunk in chunks:
            for item in decoder.feed(chunk):
                yield item
            if decoder.has_failed:
                break
        for item in decoder.finish():
            yield item
    finally:
        close: Optional[Callable[[], Awaitable[object]]] = getattr(chunks, "aclose", None)
        if close is not None:
            await close()
