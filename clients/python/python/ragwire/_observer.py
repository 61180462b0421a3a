"""What `observer` functions get."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Optional

from ragwire.events import FailureRecord, UsageRecord

__all__ = ["FinishedTurn", "Observer", "log_error"]

logger = logging.getLogger("ragwire")


@dataclass(frozen=True, slots=True)
class FinishedTurn:
    """The figures of a turn that has ended, for metrics.

    Attributes:
        id: The turn's ID.
        outcome: `completed`, `stopped` or `failed`; `rejected` if it ended before its response began;
            `disconnected` if its reader disconnected before the end and no other resumed it.
        error: The failure, if the outcome is `failed` or `rejected`.
        wire: The name of its first reader's wire; `None` if it was collected, or rejected.
        duration: The time since the turn was started, in seconds.
        first_event: From the start to the first event, in seconds.
        first_text: From the start to the first text, in seconds.
        frames: The number of frames that the orchestrator sent, without the end.
        stalls: How often it waited for its reader because the queue was full.
        waited: The seconds until the turn was admitted; `None` if it ended on the waiting list.
        usage: What the turn consumed, as its metadata has it; `None` if the reader did not get it.
    """

    id: str
    outcome: Literal["completed", "stopped", "failed", "rejected", "disconnected"]
    error: Optional[FailureRecord]
    wire: Optional[str]
    duration: float
    first_event: Optional[float]
    first_text: Optional[float]
    frames: int
    stalls: int
    waited: Optional[float]
    usage: Optional[UsageRecord]


Observer = Callable[[FinishedTurn], object]
"""Receives the figures of a turn after its end."""


def log_error(error: BaseException) -> None:
    """Logs what an observer raised."""
    logger.error("the observer of turns failed", exc_info=error)
