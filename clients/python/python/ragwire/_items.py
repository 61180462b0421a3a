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
    """A piece of the answer.

    Attributes:
        text: The piece, never empty.
        index: The frame's index, on the wires `sse` and `ndjson`.
    """

    text: str
    index: Optional[int] = None


@dataclass(slots=True)
class EventItem:
    """An event of the vocabulary.

    Attributes:
        event: The event, with the members that its type in `ragwire.events` lists.
        index: The frame's index, on the wires `sse` and `ndjson`.
    """

    event: Event
    index: Optional[int] = None

    @property
    def name(self) -> str:
        """The event's name."""
        return self.event["event"]


@dataclass(slots=True)
class CustomItem:
    """An event of the application, or one whose members do not fit the vocabulary.

    Attributes:
        name: The event's name.
        data: JSON; an empty dictionary if the stream has no data.
        timestamp: When it was emitted, as RFC 3339 in UTC.
        index: The frame's index, on the wires `sse` and `ndjson`.
    """

    name: str
    data: Any
    timestamp: Optional[str] = None
    index: Optional[int] = None


@dataclass(slots=True)
class SnapshotItem:
    """Replaces everything that was shown of the turn: the answer so far, and the last state of each step.

    A reader that resumes too late, or falls behind, may get one.

    Attributes:
        text: The answer so far.
        events: The last state of each step.
        events_dropped: The number of events that it leaves out.
        index: The index of the last frame that it replaces.
    """

    text: str
    events: list[Union[EventItem, CustomItem]]
    events_dropped: int = 0
    index: Optional[int] = None


@dataclass(slots=True)
class EndItem:
    """The end of the turn; the last item of a complete stream.

    Attributes:
        status: How the turn ended.
        metadata: Citations, tools and usage; `members` has the application's own too.
        error: Set if the status is `failed`.
        timing: When the turn ended, and how many milliseconds it took, if the stream has it.
        index: The frame's index, on the wires `sse` and `ndjson`.
    """

    status: Literal["completed", "failed", "stopped"]
    metadata: MetadataRecord
    error: Optional[FailureRecord] = None
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
    """The stream ended before its end, so the answer is not complete. `code` is `truncated`.

    Attributes:
        phase: How far the stream had come.
    """

    phase: Phase

    def __init__(self, phase: Phase) -> None:
        super().__init__("truncated", f"the stream ended in phase {phase}, before its end")
        self.phase = phase

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.phase,)


class RefusedError(ReadError):
    """The server refused a request. `code` is the server's, such as `busy`, `unknown_turn` or `gone`.

    Attributes:
        status: The HTTP status.
        recoverable: Whether the same request may succeed later.
        retry_after: How long to wait before that, in seconds, if the server says so.
    """

    status: int
    recoverable: bool
    retry_after: Optional[float]

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

    Attributes:
        turn: The ID with which `Client.resume` continues, if the turn can be resumed.
        index: The frame from which it continues.
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
    """Returns the answer without the text that a `retract` event takes back.

    Args:
        text: The answer so far.
        kept: The event's member `kept`: the number of characters that stay.
    """
    return text[:kept]
