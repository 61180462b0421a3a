"""What readers yield, and the errors that they raise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Optional, Union, cast

from ragwire._errors import Error
from ragwire.events import Event, FailureRecord, MetadataRecord, Timing

Phase = Literal["events", "text", "trailer"]
"""How far a stream has come."""


@dataclass(slots=True)
class TextItem:
    """A piece of the answer, never empty."""

    text: str
    index: Optional[int] = None
    """The frame's index, on the wires `sse` and `ndjson`."""


@dataclass(slots=True)
class EventItem:
    """An event of the vocabulary, with the members that its type lists."""

    event: Event
    index: Optional[int] = None

    @property
    def name(self) -> str:
        """The event's name."""
        return self.event["event"]


@dataclass(slots=True)
class CustomItem:
    """An event of the application, or one whose members do not fit the vocabulary."""

    name: str
    data: Any
    """JSON; an empty dictionary if the stream has no data."""
    timestamp: Optional[str] = None
    """RFC 3339, UTC."""
    index: Optional[int] = None


@dataclass(slots=True)
class SnapshotItem:
    """Replaces everything that was shown of the turn: the answer so far, and the last state of each step.

    A reader that resumes too late, or falls behind, may get one.
    """

    text: str
    events: list[Union[EventItem, CustomItem]]
    events_dropped: int = 0
    """The number of events that it leaves out."""
    index: Optional[int] = None
    """The index of the last frame that it replaces."""


@dataclass(slots=True)
class EndItem:
    """The end of the turn; the last item of a complete stream."""

    status: Literal["completed", "failed", "stopped"]
    metadata: MetadataRecord
    error: Optional[FailureRecord] = None
    """Set if the status is `failed`."""
    timing: Optional[Timing] = None
    index: Optional[int] = None

    @property
    def members(self) -> Mapping[str, object]:
        """The metadata with the application's own members."""
        return cast("Mapping[str, object]", self.metadata)


Item = Union[TextItem, EventItem, CustomItem, SnapshotItem, EndItem]
"""What readers yield."""


class ReadError(Error):
    """The base of the errors of readers."""


class DecodeError(ReadError):
    """The stream breaks a rule of its wire; `code` is one of PROTOCOL.md's error codes, such as `bad_event`.

    Items before it stay valid.
    """


class TruncatedError(ReadError):
    """The stream ended before its end, so the answer is not complete. `code` is `truncated`."""

    phase: Phase

    def __init__(self, phase: Phase) -> None:
        super().__init__("truncated", f"the stream ended in phase {phase}, before its end")
        self.phase = phase

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.phase,)


class RefusedError(ReadError):
    """The server refused a request. `code` is the server's, such as `busy`, `unknown_turn` or `gone`."""

    status: int
    """The HTTP status."""
    recoverable: bool
    """Whether the same request may succeed later."""
    retry_after: Optional[float]
    """How long to wait before that, in seconds, if the server says so."""

    def __init__(
        self, status: int, code: str, message: str, recoverable: bool = True, retry_after: Optional[float] = None
    ) -> None:
        super().__init__(code, message)
        self.status = status
        self.recoverable = recoverable
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.status, self.code, self.message, self.recoverable, self.retry_after)


class DisconnectedError(ReadError):
    """The connection was lost and could not be restored; `code` is `disconnected`.

    `turn` and `index` say where `Client.resume` continues, if the turn can be resumed.
    """

    turn: Optional[str]
    index: int

    def __init__(self, message: str, turn: Optional[str], index: int) -> None:
        super().__init__("disconnected", message)
        self.turn = turn
        self.index = index

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.message, self.turn, self.index)


def withdraw(text: str, kept: int) -> str:
    """Return the answer without the text that a `retract` event takes back.

    `kept` is the event's number of characters that stay.
    """
    return text[:kept]
