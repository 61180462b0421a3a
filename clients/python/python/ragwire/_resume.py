"""Reading one turn through broken connections, without I/O: requests and bytes out and in.

`_client.py` sends the requests. `Reading` knows what to ask for, what was already delivered, and how
long to wait before the next attempt.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional
from urllib.parse import quote

from ragwire._decode import Chunk, Decoder
from ragwire._items import DecodeError, DisconnectedError, EndItem, Item, RefusedError, SnapshotItem, TruncatedError

OwnWire = Literal["ndjson", "sse"]
"""The wires whose frames have an index, so that a reader can continue exactly."""

ACCEPT: Mapping[OwnWire, str] = {
    "ndjson": "application/x-ndjson",
    "sse": "text/event-stream",
}
TURN_HEADER = "x-ragwire-turn"
MAX_ERROR_BYTES = 64 * 1024
"""Refusals of our servers have a few hundred bytes; a proxy may send a page."""
MAX_RETRY_AFTER = 60.0
"""The longest wait that a server can ask for, in seconds."""
RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses of a resumed stream after which the same request may succeed."""


@dataclass(frozen=True)
class Retry:
    """How a lost connection is restored. Any item that arrives resets the number of attempts.

    Attributes:
        attempts: Attempts in a row before `DisconnectedError` is raised; 0 never reconnects.
        first_delay: The longest delay before the first attempt, in seconds; it doubles with each
            attempt.
        max_delay: The longest delay, in seconds.
    """

    attempts: int = 8
    first_delay: float = 0.25
    max_delay: float = 10.0

    def delay(self, attempt: int) -> float:
        """Returns the delay before an attempt, in seconds.

        It is random between 0 and the attempt's longest delay, so that the clients of a server that
        restarts do not reconnect all at once.

        Args:
            attempt: The number of attempts before it; the first is 0.
        """
        return random.uniform(0, min(self.max_delay, self.first_delay * 2.0 ** min(attempt, 32)))


@dataclass(frozen=True)
class Request:
    """One HTTP request."""

    method: Literal["GET", "POST"]
    url: str
    headers: Mapping[str, str]
    json: Optional[Mapping[str, Any]] = None


class Routes:
    """The URLs of a server."""

    def __init__(self, url: str, headers: Optional[Mapping[str, str]]) -> None:
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, not {url!r}")
        self.url: str = url.rstrip("/")
        self.headers: dict[str, str] = dict(headers or {})

    def ask(self, wire: OwnWire, question: Mapping[str, Any]) -> Request:
        """Start a turn."""
        return Request("POST", f"{self.url}/v1/turns", {**self.headers, "accept": ACCEPT[wire]}, question)

    def stream(self, wire: OwnWire, turn: str, start: int) -> Request:
        """Read a turn from a frame on."""
        url = f"{self._turn(turn)}/stream?from={start}"
        return Request("GET", url, {**self.headers, "accept": ACCEPT[wire]})

    def stop(self, turn: str) -> Request:
        """Stop a turn."""
        return Request("POST", f"{self._turn(turn)}/stop", self.headers)

    def answer(self, turn: str, request_id: str, response: object) -> Request:
        """Answer a question of a turn."""
        body = {"request_id": request_id, "response": response}
        return Request("POST", f"{self._turn(turn)}/answer", self.headers, body)

    def _turn(self, turn: str) -> str:
        return f"{self.url}/v1/turns/{quote(turn, safe='')}"


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> RefusedError:
    """Return the error for a response that is not a stream."""
    code, message, recoverable = f"http_{status}", f"the server answered with status {status}", status >= 500
    try:
        error = json.loads(body[:MAX_ERROR_BYTES])["error"]
        code, message, recoverable = str(error["code"]), str(error["message"]), bool(error["recoverable"])
    except (ValueError, KeyError, TypeError):
        pass
    try:
        retry_after: Optional[float] = max(0.0, float(headers.get("retry-after", "")))
    except ValueError:
        retry_after = None
    return RefusedError(status, code, message, recoverable, retry_after)


def accepted(status: int, headers: Mapping[str, str], body: bytes, member: str) -> bool:
    """Return a member of the response to a stop or an answer."""
    if status != 200:
        raise refusal(status, headers, body)
    return bool(json.loads(body)[member])


class Reading:
    """One turn, over any number of connections.

    The caller sends `request`, passes the response to `begin` and `feed` or to `refuse`, and calls
    `lost` when the connection breaks. `delay` is then the time before the next request.
    """

    def __init__(
        self, routes: Routes, wire: OwnWire, retry: Retry, first: Request, turn: Optional[str], start: int
    ) -> None:
        self.turn: Optional[str] = turn
        self.next_index: int = start
        self.has_ended: bool = False
        self.request: Request = first
        self.delay: float = 0.0
        self._routes = routes
        self._wire: OwnWire = wire
        self._retry = retry
        self._attempts = 0
        self._decoder = Decoder(wire)

    def begin(self, headers: Mapping[str, str]) -> None:
        """Take the head of a stream."""
        self.turn = headers.get(TURN_HEADER, self.turn)
        self._decoder = Decoder(self._wire)

    def feed(self, chunk: Chunk) -> Iterator[Item]:
        """Take bytes and yield the new items; raises DecodeError."""
        yield from self._deliver(self._decoder.feed(chunk))
        if self._decoder.has_failed:
            yield from self._deliver(self._decoder.finish())

    def close(self) -> Iterator[Item]:
        """Report the end of a response; raises DecodeError and TruncatedError."""
        yield from self._deliver(self._decoder.finish())

    def refuse(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Take a response that is not a stream; raises RefusedError unless the request is repeated."""
        if status == 204:
            # Nothing is left to read: the caller had every frame before it resumed.
            self.has_ended = True
            return
        error = refusal(status, headers, body)
        # A question is never repeated: it would start a second turn.
        if self.request.method == "POST" or status not in RETRIED_STATUSES or self._is_exhausted():
            raise error
        self._wait(error.retry_after or 0.0)

    def lost(self, error: Exception) -> None:
        """Prepare to reconnect; raises DisconnectedError if that is impossible, TruncatedError as it is."""
        if self.has_ended:
            return
        if self.turn is None or self._is_exhausted():
            if isinstance(error, TruncatedError):
                raise error
            cause = error.__cause__ or error
            raise DisconnectedError(f"the connection was lost: {cause!r}", self.turn, self.next_index) from error
        self._wait(0.0)

    def _is_exhausted(self) -> bool:
        return self.turn is None or self._attempts >= self._retry.attempts

    def _wait(self, at_least: float) -> None:
        self.delay = max(min(at_least, MAX_RETRY_AFTER), self._retry.delay(self._attempts))
        self._attempts += 1
        assert self.turn is not None
        self.request = self._routes.stream(self._wire, self.turn, self.next_index)

    def _deliver(self, items: Iterable[Item]) -> Iterator[Item]:
        for item in items:
            index = item.index
            if index is None or index < self.next_index:
                continue
            if index > self.next_index and not isinstance(item, SnapshotItem):
                raise DecodeError("gap", "a frame is missing or repeated")
            self.next_index = index + 1
            self.has_ended = isinstance(item, EndItem)
            self._attempts = 0
            yield item
