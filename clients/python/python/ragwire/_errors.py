"""The exceptions of ragwire. Each has a stable `code` for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ragwire._response import Response

__all__ = [
    "AnswerError",
    "AskError",
    "Error",
    "EventError",
    "Failure",
    "ForkError",
    "OptionError",
    "RedisError",
    "Refusal",
    "Rejected",
    "SendError",
    "SessionError",
]


class Error(Exception):
    """The base of all exceptions of ragwire.

    Attributes:
        code: A stable name for programs.
        message: What happened, in a sentence.
    """

    code: str
    message: str

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class Failure(Error):
    """The failure of a turn, as its reader gets it.

    An orchestrator raises it to end its turn with a message for the user. Any other exception is
    only logged, and the user gets a general message.

    Attributes:
        code: A stable name for programs, such as `quota`.
        message: What the user reads, in a sentence.
        recoverable: Whether the same request may succeed later.
    """

    recoverable: bool

    def __init__(self, code: str, message: str, *, recoverable: bool = True) -> None:
        super().__init__(code, message)
        self.recoverable = recoverable


class Refusal(Failure):
    """A refused request, raised by an `owner` function of `Endpoints`.

    Attributes:
        status: The HTTP status.
        code: A stable name for programs, such as `unauthorized`.
        message: What the client reads, in a sentence.
        recoverable: Whether the same request may succeed later.
    """

    status: int

    def __init__(self, status: int, code: str, message: str, *, recoverable: bool = False) -> None:
        super().__init__(code, message, recoverable=recoverable)
        self.status = status


class Rejected(Error):
    """There is no stream: the turn failed or was refused before its response began.

    Attributes:
        status: The HTTP status of the response.
        recoverable: Whether the same request may succeed later.
        retry_after: After how many seconds a retry makes sense, if that is known.
        turn_id: The turn's ID, which is the `request_id` of the response.
    """

    status: int
    recoverable: bool
    retry_after: float | None
    turn_id: str

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        recoverable: bool,
        retry_after: float | None,
        turn_id: str,
    ) -> None:
        super().__init__(code, message)
        self.status = status
        self.recoverable = recoverable
        self.retry_after = retry_after
        self.turn_id = turn_id

    def response(self) -> Response:
        """Returns the response that the endpoints send: the status, `body()` and `retry-after`.

        ```python
        @app.exception_handler(ragwire.Rejected)
        async def rejected(request: Request, error: ragwire.Rejected) -> ragwire.Response:
            return error.response()
        ```
        """
        from ragwire._response import Rejection

        return Rejection(self)

    def body(self) -> dict[str, object]:
        """Returns the JSON body of the response."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "recoverable": self.recoverable,
                "request_id": self.turn_id,
            }
        }


class SendError(Error):
    """An item was not sent: the turn has ended, or its reader has disconnected."""


class AskError(Error):
    """A question to a human has no answer."""


class AnswerError(Error):
    """A human's answer was not accepted.

    Attributes:
        status: The HTTP status for the client that answered.
    """

    status: int

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code, message)
        self.status = status


class EventError(Error, ValueError):
    """An event has an invalid name or invalid members."""


class OptionError(Error, ValueError):
    """An option has an invalid value."""

    def __init__(self, message: str) -> None:
        super().__init__("invalid_option", message)


class RedisError(Error):
    """The Redis server cannot be used."""


class SessionError(Error):
    """The sessions cannot be used."""


class ForkError(Error, RuntimeError):
    """The process was forked after ragwire was used in its parent."""

    def __init__(self) -> None:
        super().__init__(
            "forked",
            "this process was forked after ragwire was used in its parent, so the threads of "
            "ragwire do not exist here; use ragwire only after the fork, or start workers with "
            "spawn",
        )
