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
        """Creates the decoder of a stream that has not begun.

        Args:
            wire: The wire of the stream, one of `ragwire.DECODED_WIRES`.
            max_line_bytes: The maximum size of an event, in bytes. Default: 262,144.
            max_trailer_bytes: The maximum size of the end of a turn, in bytes. Default: 1,048,576.
            answer_nodes: On the wire `langgraph`, the nodes whose text is the answer; that of others
                is a thought. Default: all nodes.

        Raises:
            ValueError: The wire is unknown, or a limit is below 1.
        """
        self._decoder = _ragwire.Decoder(wire, max_line_bytes, max_trailer_bytes, list(answer_nodes))

    def feed(self, chunk: Chunk) -> list[Item]:
        """Takes the next bytes and returns the items that they complete.

        Bytes after an error are ignored; `finish` raises it.

        Args:
            chunk: The next bytes, cut anywhere.

        Raises:
            TypeError: The chunk is not bytes.
            ValueError: `finish` was called before.
        """
        return self._decoder.feed(chunk)

    @property
    def has_failed(self) -> bool:
        """Whether the stream broke a rule, so that nothing more is decoded."""
        return self._decoder.has_failed

    def finish(self) -> Generator[Item, None, None]:
        """Yields the last items and reports the end of the bytes.

        Raises:
            DecodeError: The stream broke a rule; after the last items.
            TruncatedError: The stream ended early; after the last items.
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
    """Yields the items of a stream as they arrive; the last one of a complete stream is an `EndItem`.

    Closing the iterator closes `chunks`. What `chunks` raises passes through.

    Args:
        wire: The wire of the stream, one of `ragwire.DECODED_WIRES`.
        chunks: An iterable of bytes, an async iterable of bytes, or an open response of httpx or
            aiohttp; the result is an iterator or an async iterator accordingly. For a response of
            `httpx.AsyncClient` pass `response.aiter_bytes()`.
        max_line_bytes: The maximum size of an event, in bytes. Default: 262,144.
        max_trailer_bytes: The maximum size of the end of a turn, in bytes. Default: 1,048,576.
        answer_nodes: On the wire `langgraph`, the nodes whose text is the answer; that of others is
            a thought. Default: all nodes.

    Raises:
        DecodeError: The stream breaks a rule of the wire; after the items that came before.
        TruncatedError: The stream ended before its end; after the items that came before.
        ValueError: The wire is unknown, or a limit is below 1.
        TypeError: `chunks` is none of these kinds, or a chunk is not bytes.
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
