"""The events of a turn as typed dictionaries.

`Event` is their union. The member `event` distinguishes them, so that type checkers narrow::

    if event["event"] == "search":
        print(event["tool"])        # a SearchEvent

Times are RFC 3339 strings in UTC; durations end with `_ms` and are in milliseconds; pages, rounds
and iterations are counted from 1.
"""

from __future__ import annotations

import sys
from typing import Any, Literal, Union

if sys.version_info >= (3, 11):
    from typing import NotRequired, TypedDict
else:
    from typing_extensions import NotRequired, TypedDict


class SearchEvent(TypedDict):
    """The agent calls a search tool."""

    event: Literal["search"]
    tool: str
    query: NotRequired[str]
    page: NotRequired[int]
    timestamp: NotRequired[str]


class ReasoningEvent(TypedDict):
    """A step of reasoning as text."""

    event: Literal["reasoning"]
    content: str
    timestamp: NotRequired[str]


class ReviewEvent(TypedDict):
    """A judge reviewed the evidence or a draft."""

    event: Literal["review"]
    iteration: int
    verdict: Literal["approved", "rejected"]
    feedback: NotRequired[str]
    timestamp: NotRequired[str]


class QueryAnalysisEvent(TypedDict):
    """The classification of the question."""

    event: Literal["query_analysis"]
    query: str
    complexity: Literal["simple", "moderate", "complex"]
    decomposed: bool
    estimated_mode: Literal["agentic", "direct"]
    judge: NotRequired[str]
    """`lexical` or the name of a model."""
    timestamp: NotRequired[str]


class CacheHitEvent(TypedDict):
    """The cache has an answer."""

    event: Literal["cache_hit"]
    original_query: str
    cached_at: str
    similarity: NotRequired[float]
    timestamp: NotRequired[str]


class CacheMissEvent(TypedDict):
    """The cache has no answer."""

    event: Literal["cache_miss"]
    timestamp: NotRequired[str]


class RetrievalStartEvent(TypedDict):
    """A retrieval tool begins."""

    event: Literal["retrieval_start"]
    tool: str
    query: str
    iteration: int
    timestamp: NotRequired[str]


class Levels(TypedDict):
    """Number of chunks per level in a retrieval's result."""

    L1: int
    L2: int
    L3: int


class RetrievalResultEvent(TypedDict):
    """A retrieval tool has finished."""

    event: Literal["retrieval_result"]
    tool: str
    chunks_found: int
    duration_ms: int
    top_score: NotRequired[float]
    levels: NotRequired[Levels]
    timestamp: NotRequired[str]


class ToolCallEvent(TypedDict):
    """A tool is called."""

    event: Literal["tool_call"]
    tool: str
    input: NotRequired[Any]
    call_id: NotRequired[str]
    """Connects the call with its result."""
    iteration: NotRequired[int]
    description: NotRequired[str]
    parameters: NotRequired[Any]
    round: NotRequired[int]
    max_rounds: NotRequired[int]
    timestamp: NotRequired[str]


class ToolResultEvent(TypedDict):
    """A tool returned."""

    event: Literal["tool_result"]
    tool: str
    result: NotRequired[Any]
    call_id: NotRequired[str]
    is_error: NotRequired[bool]
    duration_ms: NotRequired[int]
    round: NotRequired[int]
    max_rounds: NotRequired[int]
    timestamp: NotRequired[str]


class CragDetail(TypedDict):
    """The quality gate's verdict on one chunk. Scores are from 0 to 1."""

    chunk_id: str
    classification: Literal["CORRECT", "AMBIGUOUS", "INCORRECT"]
    score: float
    expanded: NotRequired[bool]
    new_score: NotRequired[float]


class CragEvaluationEvent(TypedDict):
    """The quality gate judged the retrieved chunks."""

    event: Literal["crag_evaluation"]
    correct: int
    ambiguous: int
    incorrect: int
    action: Literal["proceed", "re-retrieve", "expand"]
    expanded: int
    details: list[CragDetail]
    judge: NotRequired[str]
    timestamp: NotRequired[str]


class RerankResultEvent(TypedDict):
    """The chunks were reranked."""

    event: Literal["rerank_result"]
    method: str
    input_count: int
    output_count: int
    duration_ms: int
    top_score: NotRequired[float]
    timestamp: NotRequired[str]


class GenerationStartEvent(TypedDict):
    """The answer is about to be generated."""

    event: Literal["generation_start"]
    context_chunks: int
    total_context_tokens: int
    model: str
    timestamp: NotRequired[str]


class RoundStartEvent(TypedDict):
    """A round of inference begins."""

    event: Literal["round_start"]
    round: int
    max_rounds: int
    timestamp: NotRequired[str]


class GeneratingEvent(TypedDict):
    """The model generates in this round."""

    event: Literal["generating"]
    round: int
    max_rounds: int
    timestamp: NotRequired[str]


class ThinkingEvent(TypedDict):
    """A thought of the model. Consecutive events with the same `id` are pieces of one thought."""

    event: Literal["thinking"]
    content: str
    id: NotRequired[str]
    round: NotRequired[int]
    max_rounds: NotRequired[int]
    timestamp: NotRequired[str]


class RetractEvent(TypedDict):
    """The model takes back the answer after its first `kept` characters; see `ragwire.withdraw`."""

    event: Literal["retract"]
    kept: int
    timestamp: NotRequired[str]


class ClaimCheck(TypedDict):
    """One claim of the answer and the verdict of the sources on it."""

    claim: str
    verdict: Literal["SUPPORTED", "PARTIALLY_SUPPORTED", "UNSUPPORTED"]


class VerificationEvent(TypedDict):
    """The answer was checked claim by claim. `confidence` is the share of supported claims, 0 to 1."""

    event: Literal["verification"]
    claims_checked: int
    claims_supported: int
    claims_partially_supported: int
    claims_unsupported: int
    details: list[ClaimCheck]
    confidence: NotRequired[float]
    judge: NotRequired[str]
    timestamp: NotRequired[str]


class Source(TypedDict):
    """One passage behind an answer."""

    chunk_id: str
    document_id: str
    text: str
    page_numbers: list[int]
    title: NotRequired[str]
    level: NotRequired[str]
    score: NotRequired[float]
    heading: NotRequired[str]


class SourcesEvent(TypedDict):
    """The passages behind the answer, best first."""

    event: Literal["sources"]
    sources: list[Source]
    timestamp: NotRequired[str]


class QueuedEvent(TypedDict):
    """The turn is on the waiting list; position 1 is next."""

    event: Literal["queued"]
    position: int
    ahead: int
    waited_ms: int
    timestamp: NotRequired[str]


class InputRequestedEvent(TypedDict):
    """The turn needs a human's answer; `Client.answer` sends it."""

    event: Literal["input_requested"]
    request_id: str
    kind: str
    """`approval`, `choice`, `text` or one that the application defines."""
    prompt: str
    options: NotRequired[list[str]]
    timestamp: NotRequired[str]


class InputResolvedEvent(TypedDict):
    """A request to a human was resolved; without a `response` if it timed out or was withdrawn."""

    event: Literal["input_resolved"]
    request_id: str
    response: NotRequired[Any]
    timestamp: NotRequired[str]


class AuthorizationRequiredEvent(TypedDict):
    """A connection needs the user's consent, given at `auth_url`."""

    event: Literal["authorization_required"]
    connection: str
    auth_url: str
    description: str
    request_id: NotRequired[str]
    timestamp: NotRequired[str]


class AuthorizationCompletedEvent(TypedDict):
    """The outcome of a request for consent."""

    event: Literal["authorization_completed"]
    connection: str
    outcome: Literal["authorized", "declined", "failed", "timed-out"]
    reason: NotRequired[str]
    request_id: NotRequired[str]
    timestamp: NotRequired[str]


class StructuredResultEvent(TypedDict):
    """The answer in the structure that the client requested."""

    event: Literal["structured_result"]
    result: NotRequired[Any]
    timestamp: NotRequired[str]


class Triple(TypedDict):
    """One edge of a knowledge graph: subject, predicate, object."""

    s: str
    p: str
    o: str


class GraphExplanationEvent(TypedDict):
    """How a graph search reached its result."""

    event: Literal["graph_explanation"]
    explain_id: str
    graph: str
    triples: list[Triple]
    timestamp: NotRequired[str]


Event = Union[
    SearchEvent,
    ReasoningEvent,
    ReviewEvent,
    QueryAnalysisEvent,
    CacheHitEvent,
    CacheMissEvent,
    RetrievalStartEvent,
    RetrievalResultEvent,
    ToolCallEvent,
    ToolResultEvent,
    CragEvaluationEvent,
    RerankResultEvent,
    GenerationStartEvent,
    RoundStartEvent,
    GeneratingEvent,
    ThinkingEvent,
    RetractEvent,
    VerificationEvent,
    SourcesEvent,
    QueuedEvent,
    InputRequestedEvent,
    InputResolvedEvent,
    AuthorizationRequiredEvent,
    AuthorizationCompletedEvent,
    StructuredResultEvent,
    GraphExplanationEvent,
]
"""Every event of the vocabulary. An event of the application is a `ragwire.CustomItem`."""


class CitationRecord(TypedDict):
    """One piece of evidence for the answer, as a stream contains it."""

    document_id: str
    chunk_id: str
    supporting_quote: str
    source_tool: str
    page_number: NotRequired[int]
    score: NotRequired[float]
    heading: NotRequired[str]


class UsageRecord(TypedDict, total=False):
    """The resources that the turn consumed. Every number is measured or absent."""

    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    answer_tokens: int
    prompt_ms: float
    generation_ms: float
    tokens_per_second: float
    slots: int
    slots_busy: int
    model: str


class QueueStats(TypedDict):
    """How long the turn was on the waiting list."""

    was_queued: bool
    queue_position: int
    queue_wait_ms: NotRequired[float]


class MetadataRecord(TypedDict):
    """The metadata at the end of a turn, as a stream contains it.

    The application's own members are in the same dictionary; `EndItem.members` types them as
    `object`.
    """

    citations: list[CitationRecord]
    tools_used: list[str]
    mode: NotRequired[str]
    usage: NotRequired[UsageRecord]
    queue_stats: NotRequired[QueueStats]
    events_dropped: NotRequired[int]
    truncated: NotRequired[bool]


class FailureRecord(TypedDict):
    """Why a turn failed, in words that may be shown to anyone."""

    code: str
    message: str
    recoverable: bool


class Timing(TypedDict):
    """When the turn ended, on wires that say so."""

    timestamp: str
    elapsed_ms: float
