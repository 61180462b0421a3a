"""The extension module. Import its names from `ragwire`."""

import os
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from typing import Any, ClassVar, Literal, TypedDict, final, overload

from typing_extensions import NotRequired

from ragwire._errors import Refusal
from ragwire._items import Item
from ragwire._observer import Observer
from ragwire._orchestrator import Answer
from ragwire._response import Response
from ragwire.events import CitationRecord, ClaimCheck, CragDetail, FailureRecord, Levels, Source, Triple
from ragwire.events import Event as EventRecord
from ragwire.events import UsageRecord

__version__: str
DECODED_WIRES: list[str]
WIRES: list[str]
"""The names of the wires that `Turn.response` writes."""

class Decoder:
    has_failed: bool
    def __init__(
        self,
        wire: str,
        max_line_bytes: int | None = None,
        max_trailer_bytes: int | None = None,
        answer_nodes: list[str] = [],
    ) -> None: ...
    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Item]: ...
    def finish(self) -> tuple[list[Item], str, str, str]: ...

class MessageRecord(TypedDict):
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str

class OpenQuestion(TypedDict):
    """A question that waits for a human."""

    request_id: str
    kind: str
    prompt: str
    options: list[str]

class Collected(TypedDict):
    """A complete turn."""

    text: str
    """The answer, without what was taken back; incomplete if the turn failed."""
    events: list[EventRecord]
    status: Literal["completed", "failed", "stopped"]
    error: FailureRecord | None
    metadata: Metadata

class Attachment(TypedDict):
    """A file that a client sent with its question."""

    media_type: str
    """As the client gives it, such as `image/png`."""
    url: str
    """Where it is, or its content as a `data:` URL."""
    name: NotRequired[str]

_Run = Callable[[Question, Sink, Any], Coroutine[Any, Any, None]]
_WireName = Literal[
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
    "mcp",
    "trustgraph",
]

@final
class Event:
    """An event: a name, and its members as keyword arguments.

    Typed events have the members that `ragwire.events` documents. Every other name is an event of
    the application, whose data is any JSON: `Event("my_step", {"n": 1})`.

    Args:
        name: One of `Event.NAMES`, or a name of your own.
        data: The data of an event of your own: any JSON. Default: the members.
        members: The members of a typed event.

    Raises:
        EventError: A member is missing, unknown or has the wrong type, or the name is invalid.
        TypeError: The data is not JSON.
    """

    NAMES: ClassVar[list[str]]
    """The names of the typed events."""
    def __new__(cls, name: str, data: Any = None, /, **members: Any) -> Event: ...
    @property
    def name(self) -> str:
        """The name of the event."""
    def as_dict(self) -> dict[str, Any]:
        """Returns the JSON of the event, with its name as `event`."""

@final
class Metadata:
    """The metadata at the end of a turn, which an orchestrator returns.

    Args:
        citations: Evidence for the answer, in the order of the citation numbers in the text, as
            `ragwire.events.CitationRecord`. Default: none.
        tools_used: Names of the tools that were used. Default: none.
        mode: How the answer was retrieved, for example `hybrid`. Default: the mode of the turn.
        usage: The resources that the turn consumed, as `ragwire.events.UsageRecord`.
        extra: Members that the application adds; any JSON.

    Raises:
        OptionError: A citation or the usage is invalid.
        TypeError: A member is not JSON.
    """

    def __new__(
        cls,
        *,
        citations: Sequence[CitationRecord] | Sequence[Mapping[str, Any]] | None = None,
        tools_used: Sequence[str] | None = None,
        mode: str | None = None,
        usage: UsageRecord | Mapping[str, Any] | None = None,
        **extra: Any,
    ) -> Metadata: ...
    @property
    def citations(self) -> list[CitationRecord]:
        """Evidence for the answer, in the order of the citation numbers in the text."""
    @property
    def tools_used(self) -> list[str]:
        """The names of the tools that were used."""
    @property
    def mode(self) -> str | None:
        """How the answer was retrieved, if that is known."""
    @property
    def usage(self) -> UsageRecord | None:
        """The resources that the turn consumed, if they are known."""
    @property
    def extra(self) -> dict[str, Any]:
        """Members that the application added."""
    @property
    def events_dropped(self) -> int:
        """The number of events that a policy or a limit kept off the wire."""

@final
class Question:
    """A question, with everything that an orchestrator may use to answer it. `repr` has no text.

    Endpoints create it from a request of any protocol. Tests and routes of your own create it with
    these members:

    Args:
        prompt: The question itself.
        history: The earlier messages of the conversation, oldest first.
        owner: Whose question it is; empty if anonymous.
        mode: How to answer, if the client chose a mode.
        effort: How much work to spend.
        attachments: Files that the client sent.
        options: Options that only some protocols have; see the property `options`.

    Raises:
        OptionError: A member is unknown or has the wrong type.
    """

    def __new__(
        cls,
        prompt: str,
        *,
        history: Sequence[MessageRecord] = (),
        owner: str = "",
        mode: Literal["agentic", "direct"] | None = None,
        effort: Literal["none", "low", "medium", "high", "xhigh"] = "medium",
        attachments: Sequence[Attachment] = (),
        options: Mapping[str, Any] = {},
    ) -> Question: ...
    @property
    def prompt(self) -> str:
        """The question itself."""
    @property
    def history(self) -> list[MessageRecord]:
        """The earlier messages of the conversation, oldest first, without this question."""
    @property
    def owner(self) -> str:
        """Whose question it is; empty if anonymous."""
    @property
    def mode(self) -> Literal["agentic", "direct"] | None:
        """How to answer, if the client chose a mode."""
    @property
    def effort(self) -> Literal["none", "low", "medium", "high", "xhigh"]:
        """How much work to spend: what clients send as `reasoning_effort`."""
    @property
    def attachments(self) -> list[Attachment]:
        """Files that the client sent, with `Endpoints(attachments=True)`."""
    @property
    def instructions(self) -> str | None:
        """The client's instructions for a model: its `system` and `developer` messages.

        The adapters do not pass them on, because they would change the application's own.
        """
    @property
    def output_schema(self) -> dict[str, Any] | None:
        """The JSON schema of the answer, with `Endpoints(structured_results=True)`."""
    @property
    def extra(self) -> dict[str, Any]:
        """Members of the request that the protocol passes through to the application.

        These are `body` of `useChat`, `forwardedProps` of AG-UI and `metadata` of OpenAI.
        """
    @property
    def headers(self) -> dict[str, str]:
        """The headers that `Endpoints(pass_headers=...)` names, in lower case."""
    @property
    def options(self) -> dict[str, Any]:
        """All options that only some protocols have, without the headers.

        Besides the properties above these are `review`, `verify`, `sources_last` and `service`.
        """

@final
class Sink:
    """Sends the orchestrator's events and text to its turn.

    The methods send at once while there is room, so that `await` costs nothing then. While the
    queue is full (48 KiB or 256 frames by default), `await` waits for the reader. A call that found
    no room and is not awaited fails the turn. On other threads the methods block instead.

    Raises:
        SendError: The turn has ended, was stopped, or its reader has disconnected. An async
            orchestrator is cancelled then; only code on threads sees it.
    """

    def text(self, text: str, /) -> Awaitable[None]:
        """Sends a piece of the answer.

        Args:
            text: Any length; more than 16 KiB are sent in pieces.

        Raises:
            SendError: The turn has ended.
            TypeError: The piece is not a `str`.
        """
    def send(self, item: str | Event, /) -> Awaitable[None]:
        """Sends a piece of the answer or an event.

        Args:
            item: A piece of the answer, or an event.

        Raises:
            SendError: The turn has ended, or the event is larger than `max_event_bytes`.
            TypeError: The item is neither a `str` nor an `Event`.
        """
    @overload
    def event(
        self,
        name: Literal["search"],
        /,
        *,
        tool: str,
        query: str | None = None,
        page: int | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["reasoning"],
        /,
        *,
        content: str,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["review"],
        /,
        *,
        iteration: int,
        verdict: Literal["approved", "rejected"],
        feedback: str | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["query_analysis"],
        /,
        *,
        query: str,
        complexity: Literal["simple", "moderate", "complex"],
        decomposed: bool,
        estimated_mode: Literal["agentic", "direct"],
        judge: str | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["cache_hit"],
        /,
        *,
        original_query: str,
        cached_at: str,
        similarity: float | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["cache_miss"],
        /,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["retrieval_start"],
        /,
        *,
        tool: str,
        query: str,
        iteration: int,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["retrieval_result"],
        /,
        *,
        tool: str,
        chunks_found: int,
        duration_ms: int,
        top_score: float | None = None,
        levels: Levels | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["tool_call"],
        /,
        *,
        tool: str,
        input: Any | None = None,
        call_id: str | None = None,
        iteration: int | None = None,
        description: str | None = None,
        parameters: Any | None = None,
        round: int | None = None,
        max_rounds: int | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["tool_result"],
        /,
        *,
        tool: str,
        result: Any | None = None,
        call_id: str | None = None,
        is_error: bool | None = None,
        duration_ms: int | None = None,
        round: int | None = None,
        max_rounds: int | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["crag_evaluation"],
        /,
        *,
        correct: int,
        ambiguous: int,
        incorrect: int,
        action: Literal["proceed", "re-retrieve", "expand"],
        expanded: int,
        details: Sequence[CragDetail] | Sequence[Mapping[str, Any]],
        judge: str | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["rerank_result"],
        /,
        *,
        method: str,
        input_count: int,
        output_count: int,
        duration_ms: int,
        top_score: float | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["generation_start"],
        /,
        *,
        context_chunks: int,
        total_context_tokens: int,
        model: str,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["round_start"],
        /,
        *,
        round: int,
        max_rounds: int,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["generating"],
        /,
        *,
        round: int,
        max_rounds: int,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["thinking"],
        /,
        *,
        content: str,
        id: str | None = None,
        round: int | None = None,
        max_rounds: int | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["retract"],
        /,
        *,
        kept: int,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["verification"],
        /,
        *,
        claims_checked: int,
        claims_supported: int,
        claims_partially_supported: int,
        claims_unsupported: int,
        details: Sequence[ClaimCheck] | Sequence[Mapping[str, Any]],
        confidence: float | None = None,
        judge: str | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["sources"],
        /,
        *,
        sources: Sequence[Source] | Sequence[Mapping[str, Any]],
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["queued"],
        /,
        *,
        position: int,
        ahead: int,
        waited_ms: int,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["input_requested"],
        /,
        *,
        request_id: str,
        kind: str,
        prompt: str,
        options: list[str] | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["input_resolved"],
        /,
        *,
        request_id: str,
        response: Any | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["authorization_required"],
        /,
        *,
        connection: str,
        auth_url: str,
        description: str,
        request_id: str | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["authorization_completed"],
        /,
        *,
        connection: str,
        outcome: Literal["authorized", "declined", "failed", "timed-out"],
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["structured_result"],
        /,
        *,
        result: Any | None = None,
    ) -> Awaitable[None]: ...
    @overload
    def event(
        self,
        name: Literal["graph_explanation"],
        /,
        *,
        explain_id: str,
        graph: str,
        triples: Sequence[Triple] | Sequence[Mapping[str, Any]],
    ) -> Awaitable[None]: ...
    @overload
    def event(self, name: str, data: Any, /) -> Awaitable[None]:
        """Sends an event.

        Typed events have the members that `ragwire.events` documents. Every other name is an event
        of the application, whose data is any JSON.

        Args:
            name: One of `Event.NAMES`, whose members follow as keyword arguments, or a name of your
                own.
            data: The data of an event of your own.
            members: The members of a typed event.

        Raises:
            EventError: A member is missing, unknown or has the wrong type.
            SendError: The turn has ended.
            TypeError: The data is not JSON.
        """
    def ask(
        self,
        prompt: str,
        *,
        kind: str | None = None,
        options: Sequence[str] | None = None,
        request_id: str | None = None,
        within: float = 300.0,
        shown_elsewhere: bool = False,
    ) -> Awaitable[Any]:
        """Asks a human and waits for the answer. On a thread it blocks and returns the answer itself.

        Args:
            prompt: The question.
            kind: `approval`, whose options are `Approve` and `Reject`; `choice`, the default with
                options; `text`, the default without; or one that your frontend knows.
            options: The answers to choose from. Default: those of the kind.
            request_id: Names the question in its answer: 1 to 128 bytes. Default: a random one.
            within: For how many seconds it waits. The idle limit does not count meanwhile.
            shown_elsewhere: Asks even if the reader's wire cannot show it in time.

        Returns:
            The answer: for an approval and a choice one of the options, otherwise any JSON.

        Raises:
            AskError: The question was not answered in time, or cannot be shown.
            SendError: The turn has ended.
        """
    def authorize(
        self,
        connection: str,
        auth_url: str,
        *,
        description: str | None = None,
        request_id: str | None = None,
        within: float = 300.0,
        shown_elsewhere: bool = False,
    ) -> Awaitable[Literal["authorized", "declined", "failed", "timed_out"]]:
        """Requests the user's consent at `auth_url` and waits for the outcome.

        On a thread it blocks and returns the outcome itself.

        Args:
            connection: The name of the service, as the user knows it.
            auth_url: The page on which the user consents.
            description: Why the consent is needed. Default: none.
            request_id: Names the request in its outcome: 1 to 128 bytes. Default: a random one.
            within: For how many seconds it waits. The idle limit does not count meanwhile.
            shown_elsewhere: Requests it even if the reader's wire cannot show it in time.

        Raises:
            AskError: The request cannot be shown.
            SendError: The turn has ended.
        """
    @property
    def is_closed(self) -> bool:
        """Whether every send would raise. Check it in long loops on threads."""
    @property
    def turn_id(self) -> str:
        """The ID of the turn: 32 hexadecimal digits."""

@final
class Turn:
    """One question, answered in the background, for routes of your own.

    ```python
    @app.post("/chat")
    async def chat(prompt: str) -> ragwire.Response:
        turn = await ragwire.Turn.start(answer, prompt).commit()
        return turn.response("ai_sdk")
    ```

    A turn has one reader: either `response` or `collect`. With a journal, `Journal.resume` returns
    further ones.

    Dropping a turn that is not read cancels its orchestrator.
    """

    @staticmethod
    def start(
        answer: Answer,
        question: Question | str | None = None,
        *,
        journal: Journal | None = None,
        group: TurnGroup | None = None,
        owner: str | None = None,
        lane: str | None = None,
        client: str | None = None,
        observer: Observer | None = None,
        on_disconnect: Literal["cancel", "run_to_end"] | float = "cancel",
        commit_on: Literal["first_frame", "first_text"] = "first_frame",
        commit_after: float | None = None,
        mode: str | None = None,
        delay_first_text: float | None = None,
        max_queue_frames: int = 256,
        max_queue_bytes: int = 48 << 10,
        max_event_bytes: int = 256 << 10,
        keep_alive: float | None = 15.0,
        idle: float | None = 120.0,
        total: float | None = 600.0,
        write_stall: float | None = 30.0,
    ) -> Turn:
        """Starts the orchestrator as a task of the running event loop.

        Args:
            answer: An orchestrator, as for `Endpoints`.
            question: What it answers: a `Question`, or only its prompt. Default: an empty question.
            journal: Records the turn, so that it can be resumed.
            group: Limits how many turns run and wait.
            owner: Who may resume and stop the turn.
            lane: The name by which the group's limit per owner counts, instead of the owner.
            client: The name by which the group's limits per client count, such as an address.
            observer: A function that gets the `FinishedTurn` after its end, on the event loop.
            on_disconnect: What happens to a turn with a journal when its last reader disconnects; a
                number of seconds stops it after that time.
            commit_on: What begins the response. Before that, a failure raises `Rejected`.
            commit_after: After how many seconds the response begins at the latest.
            mode: The mode in the metadata, also of a failed turn.
            delay_first_text: For how many seconds the first text is held back for events.
            max_queue_frames: How many frames may wait for the reader.
            max_queue_bytes: How many bytes may wait for the reader.
            max_event_bytes: The maximum size of one event, as JSON.
            keep_alive: After how many seconds of silence a filler is sent; `None` for never.
            idle: For how many seconds the orchestrator may be silent; `None` for any time.
            total: For how many seconds the turn may run; `None` for any time.
            write_stall: For how many seconds data may wait for the reader; `None` for any time.

        Raises:
            ForkError: The process was forked after ragwire was used.
            OptionError: An option has an invalid value.
            RuntimeError: No event loop runs on this thread.
            TypeError: `answer` cannot be called with a question and a sink.
        """
    def commit(self) -> Awaitable[Turn]:
        """Waits until the response begins, and returns the turn.

        Raises:
            Rejected: The turn failed or was refused before; it has the status of the response.
            RuntimeError: The turn was committed before.
        """
    def response(
        self, wire: _WireName | str = "framed", *, model: str = "ragwire", thread_id: str = "", pad_to: int = 0
    ) -> Response:
        """Returns the streaming response: an ASGI app, and Starlette's `Response` where it is installed.

        Args:
            wire: One of `ragwire.WIRES`; `-` and `_` are the same.
            model: The name of the model, which the wires of OpenAI and Ollama write.
            thread_id: The thread, which the wires of AG-UI and LangGraph write.
            pad_to: What the pieces of the stream are padded to, in bytes, so that their sizes do not
                reveal the texts; at most 4,096, and 0 for no padding. The last piece and the wires of
                Ollama and TrustGraph are not padded.

        Raises:
            OptionError: The wire is unknown.
            RuntimeError: The turn is not committed, or was read before.
        """
    def collect(self) -> Awaitable[Collected]:
        """Reads the turn to its end: at most 4 MiB of text and 10,000 events.

        Raises:
            RuntimeError: The turn is not committed, was read before, or is larger.
        """
    def stop(self) -> bool:
        """Stops the turn. Returns `False` if it has already ended."""
    def answer(self, request_id: str, answer: Any) -> None:
        """Answers an open question. Check first that the client may.

        Args:
            request_id: The ID of the question, as in its event `input_requested`.
            answer: One of the options, or any JSON if there are none.

        Raises:
            AnswerError: The answer was not accepted: the question is unknown, is over, or has other
                options.
        """
    def open_questions(self) -> list[OpenQuestion]:
        """Returns the questions that wait for a human."""
    @property
    def id(self) -> str:
        """The ID of the turn: 32 hexadecimal digits."""

@final
class Journal:
    """The record of turns, from which they are resumed, stopped and answered.

    Args:
        max_turn_bytes: What one turn may take in memory, in bytes; its oldest frames are dropped
            for it.
        max_turns: The maximum number of turns.
        max_bytes: What all turns together may take in memory, in bytes.
        keep: For how many seconds a turn is stored after its end.

    Raises:
        OptionError: An option is unknown or has an invalid value.
    """

    def __new__(
        cls,
        *,
        max_turn_bytes: int = 1 << 20,
        max_turns: int = 4096,
        max_bytes: int = 64 << 20,
        keep: float = 300.0,
    ) -> Journal: ...
    @staticmethod
    def redis(
        url: str,
        *,
        max_turn_bytes: int = 1 << 20,
        max_turns: int = 4096,
        max_bytes: int = 64 << 20,
        keep: float = 300.0,
        prefix: str = "ragwire:",
        lease: float = 10.0,
        retry: float = 10.0,
        call_timeout: float = 5.0,
        connect_timeout: float = 2.0,
        response_timeout: float = 2.0,
        require: Literal["none", "every_second", "always"] = "none",
    ) -> Awaitable[Journal]:
        """Connects to a Redis server, which several hosts share.

        Await it, or pass the awaitable to `Endpoints`, which connects with the first request.

        Args:
            url: `redis://[user:password@]host[:port][/database]` or `unix:///path/of/the.sock`.
            max_turn_bytes: What one turn may take, in bytes; its oldest frames are dropped for it.
            max_turns: The maximum number of turns that this process serves.
            max_bytes: What the turns that this process serves may take in its memory, in bytes.
            keep: For how many seconds a turn is stored after its end.
            prefix: Begins every key, so that several services can share a server. The same on all hosts.
            lease: Within how many seconds readers on other hosts learn that a turn's host has died. The
                same on all hosts.
            retry: For how many seconds an unreachable server is tried again before turns fail.
            call_timeout: For how many seconds a stop or an answer waits for the turn's host.
            connect_timeout: The longest time to connect, in seconds.
            response_timeout: The longest time for one response, in seconds.
            require: How the server must store its data; `every_second` and `always` refuse one that
                may lose more.

        Raises:
            OptionError: An option is unknown or has an invalid value.
            RedisError: The address or the prefix is invalid, or the server cannot be used.
        """
    def resume(self, turn_id: str, *, owner: str = "", index: int = 0) -> Awaitable[Turn]:
        """Returns the turn from the frame `index` on, for a further reader.

        Args:
            turn_id: The ID of the turn: 32 hexadecimal digits.
            owner: Who reads it. The turn is unknown to everyone but its owner.
            index: The first frame to read; 0 is the beginning.

        Raises:
            OptionError: The ID has not 32 hexadecimal digits.
            Rejected: The turn is unknown, the journal has dropped those frames, or Redis cannot be
                reached.
        """
    def stop(self, turn_id: str, *, owner: str = "") -> Awaitable[bool]:
        """Stops a turn. Returns `False` if it has already ended.

        Args:
            turn_id: The ID of the turn: 32 hexadecimal digits.
            owner: Who stops it. The turn is unknown to everyone but its owner.

        Raises:
            OptionError: The ID has not 32 hexadecimal digits.
            Rejected: The turn is unknown, or Redis cannot be reached.
        """
    def answer(self, turn_id: str, request_id: str, answer: Any, *, owner: str = "") -> Awaitable[None]:
        """Answers an open question of a turn.

        Args:
            turn_id: The ID of the turn: 32 hexadecimal digits.
            request_id: The ID of the question, as in its event `input_requested`.
            answer: One of the options, or any JSON if there are none.
            owner: Who answers. The turn is unknown to everyone but its owner.

        Raises:
            AnswerError: The answer was not accepted: the turn or the question is unknown, the
                question is over or has other options, or Redis cannot be reached.
            OptionError: The ID has not 32 hexadecimal digits.
        """
    def latest(self, lane: str, *, owner: str = "") -> Awaitable[str | None]:
        """Returns the ID of the newest turn of a lane, or `None` if there is no turn.

        Args:
            lane: The name of the lane, as in `Turn.start`.
            owner: Whose turn it is.

        Raises:
            Rejected: Redis cannot be reached.
        """
    @property
    def turns(self) -> int:
        """The number of turns that this process has recorded."""
    @property
    def bytes(self) -> int:
        """What those turns take in memory, in bytes."""

@final
class Sessions:
    """The store of conversations.

    Args:
        max_sessions: The maximum number of sessions of all owners.
        max_messages: The maximum number of messages of a session; the oldest are dropped.
        max_bytes: The maximum size of the text of a session's messages, in bytes.
        max_state_bytes: The maximum size of the application's own state of a session, in bytes.
            Default: what the sessions of Eve need.
        max_age: For how many seconds an unchanged session is stored.

    Raises:
        OptionError: An option is unknown or has an invalid value.
    """

    def __new__(
        cls,
        *,
        max_sessions: int = 1000,
        max_messages: int = 50,
        max_bytes: int = 64 << 10,
        max_state_bytes: int | None = None,
        max_age: float = 86400.0,
    ) -> Sessions: ...
    @staticmethod
    def open(
        path: str | os.PathLike[str],
        *,
        max_sessions: int = 1000,
        max_messages: int = 50,
        max_bytes: int = 64 << 10,
        max_state_bytes: int | None = None,
        max_age: float = 86400.0,
    ) -> Awaitable[Sessions]:
        """Opens a file, which one process at a time may use.

        Await it, or pass the awaitable to `Endpoints`, which opens it with the first request.

        Args:
            path: The file; it is created if it does not exist.
            max_sessions: The maximum number of sessions of all owners.
            max_messages: The maximum number of messages of a session; the oldest are dropped.
            max_bytes: The maximum size of the text of a session's messages, in bytes.
            max_state_bytes: The maximum size of the application's own state of a session, in bytes.
                Default: what the sessions of Eve need.
            max_age: For how many seconds an unchanged session is stored.

        Raises:
            OptionError: An option is unknown or has an invalid value.
            SessionError: The file cannot be used.
        """
    @staticmethod
    def redis(
        url: str,
        *,
        max_sessions: int = 1000,
        max_messages: int = 50,
        max_bytes: int = 64 << 10,
        max_state_bytes: int | None = None,
        max_age: float = 86400.0,
        prefix: str = "ragwire:",
        lease: float = 10.0,
        retry: float = 10.0,
        call_timeout: float = 5.0,
        connect_timeout: float = 2.0,
        response_timeout: float = 2.0,
        require: Literal["none", "every_second", "always"] = "none",
    ) -> Awaitable[Sessions]:
        """Connects to a Redis server, which several hosts share.

        Await it, or pass the awaitable to `Endpoints`, which connects with the first request.

        Args:
            url: `redis://[user:password@]host[:port][/database]` or `unix:///path/of/the.sock`.
            max_sessions: The maximum number of sessions of all owners.
            max_messages: The maximum number of messages of a session; the oldest are dropped.
            max_bytes: The maximum size of the text of a session's messages, in bytes.
            max_state_bytes: The maximum size of the application's own state of a session, in bytes.
                Default: what the sessions of Eve need.
            max_age: For how many seconds an unchanged session is stored.
            prefix: Begins every key. The same on all hosts.
            lease: As for `Journal.redis`, in seconds.
            retry: For how many seconds an unreachable server is tried again.
            call_timeout: As for `Journal.redis`, in seconds.
            connect_timeout: The longest time to connect, in seconds.
            response_timeout: The longest time for one response, in seconds.
            require: How the server must store its data; `every_second` and `always` refuse one that
                may lose more.

        Raises:
            OptionError: An option is unknown or has an invalid value.
            RedisError: The address or the prefix is invalid.
            SessionError: The server cannot be used.
        """

@final
class TurnGroup:
    """A group of turns, which limits how many run and wait.

    Args:
        max_active: The maximum number of running turns.
        max_queued: The maximum length of the waiting list. 0 refuses a turn at once.
        queue_timeout: After how many seconds a waiting turn fails.
        max_per_owner: The maximum number of running turns of one owner or lane; `None` for any
            number. `Endpoints` needs 1: its lanes are sessions.
        max_active_per_client: The maximum number of running turns of one client; `None` for any
            number.
        max_queued_per_client: The maximum number of turns of one client on the waiting list; `None`
            for any number.

    Raises:
        OptionError: An option is unknown or has an invalid value.
    """

    def __new__(
        cls,
        *,
        max_active: int = 64,
        max_queued: int = 0,
        queue_timeout: float = 1800.0,
        max_per_owner: int | None = None,
        max_active_per_client: int | None = None,
        max_queued_per_client: int | None = None,
    ) -> TurnGroup: ...
    @property
    def active(self) -> int:
        """The number of running turns."""
    @property
    def queued(self) -> int:
        """The number of turns on the waiting list."""
    def shut_down(self) -> None:
        """Refuses new turns and ends all others with a failure."""
    def drained(self) -> Awaitable[None]:
        """Waits until the group has no turns."""

class Service:
    """All endpoints behind `ragwire.Endpoints`."""

    def __init__(self, run: _Run, options: Mapping[str, Any]) -> None: ...
    def exchange(
        self,
        method: str,
        target: str,
        headers: Iterable[tuple[bytes, bytes]],
        owner: str | Refusal | None,
        peer: str | None,
        variables: Context,
    ) -> Exchange: ...
    def websocket(
        self, target: str, headers: Iterable[tuple[bytes, bytes]], owner: str | Refusal | None, peer: str | None
    ) -> Awaitable[WebSocket | tuple[int, list[tuple[bytes, bytes]], bytes]]: ...
    def openapi(self) -> str: ...
    def shut_down(self) -> None: ...
    def drained(self) -> Awaitable[None]: ...

class Exchange:
    """One request and its response."""

    @property
    def is_finished(self) -> bool: ...
    def head(self) -> tuple[int, list[tuple[bytes, bytes]]] | None: ...
    def chunk(self) -> tuple[bytes, bool] | None: ...
    def wait(self) -> Awaitable[None] | None: ...
    def feed(self, chunk: bytes, more: bool) -> None: ...
    def taken(self) -> Awaitable[None]: ...
    def close(self) -> None: ...
    def shut_down(self) -> bool: ...

class WebSocket:
    """An open WebSocket."""

    def send(self, message: str | bytes) -> Awaitable[None]: ...
    def receive(self) -> Awaitable[str | bytes | tuple[int, str]]: ...

def record_limits(options: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the options of a store of finished turns beside sessions with these options."""

def max_state_bytes(max_question_bytes: int) -> int:
    """Returns the size that the state of a session needs for questions of this size."""

def protocol_names() -> list[str]: ...
def defaults() -> dict[str, dict[str, Any]]:
    """Returns the defaults of Rust by the class and the name of the option."""
