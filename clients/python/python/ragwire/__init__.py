"""Puts a RAG pipeline on the wire, live.

An orchestrator in Python emits events and text into a sink; ragwire serves them, while it runs, to
every frontend in that frontend's own protocol.
"""

from typing import TYPE_CHECKING

from ragwire import events
from ragwire._client import Answer, AsyncAnswer, AsyncClient, Client
from ragwire._decode import Decoder, Wire, decode
from ragwire._endpoints import PROTOCOLS, Endpoints, owner_header
from ragwire._errors import (
    AnswerError,
    AskError,
    Error,
    EventError,
    Failure,
    ForkError,
    OptionError,
    RedisError,
    Refusal,
    Rejected,
    SendError,
    SessionError,
)
from ragwire._items import (
    CustomItem,
    DecodeError,
    DisconnectedError,
    EndItem,
    EventItem,
    Item,
    ReadError,
    RefusedError,
    SnapshotItem,
    TextItem,
    TruncatedError,
    withdraw,
)
from ragwire._observer import FinishedTurn
from ragwire._ragwire import (
    DECODED_WIRES,
    WIRES,
    Event,
    Journal,
    Metadata,
    Question,
    Sessions,
    Sink,
    Turn,
    TurnGroup,
    __version__,
)
from ragwire._resume import Retry

if TYPE_CHECKING:
    from ragwire._response import Response

__all__ = [
    "DECODED_WIRES",
    "PROTOCOLS",
    "WIRES",
    "Answer",
    "AnswerError",
    "AskError",
    "AsyncAnswer",
    "AsyncClient",
    "Client",
    "CustomItem",
    "DecodeError",
    "Decoder",
    "DisconnectedError",
    "EndItem",
    "Endpoints",
    "Error",
    "Event",
    "EventError",
    "EventItem",
    "Failure",
    "FinishedTurn",
    "ForkError",
    "Item",
    "Journal",
    "Metadata",
    "OptionError",
    "Question",
    "ReadError",
    "RedisError",
    "Refusal",
    "RefusedError",
    "Rejected",
    "Response",
    "Retry",
    "SendError",
    "SessionError",
    "Sessions",
    "Sink",
    "SnapshotItem",
    "TextItem",
    "TruncatedError",
    "Turn",
    "TurnGroup",
    "Wire",
    "__version__",
    "decode",
    "events",
    "owner_header",
    "withdraw",
]


def __getattr__(name: str) -> object:
    # With the first use, because it imports Starlette where that is installed.
    if name == "Response":
        from ragwire._response import Response

        return Response
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
