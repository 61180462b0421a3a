"""`ragwire.llama_index` with the real package and a scripted model."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import ragwire
import ragwire.llama_index
from llama_index.core import Document, SummaryIndex
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.llms.mock import MockLLM
from llama_index.core.workflow import (
    Context,
    Event,
    HumanResponseEvent,
    InputRequiredEvent,
    StartEvent,
    StopEvent,
    Workflow,
    step,
)
from serving import ask


class Scripted(FunctionCallingLLM):
    """Calls a tool, then answers."""

    asked: list[Any] = []

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, model_name="scripted")

    def _prepare_chat_with_tools(self, tools: Any, *args: Any, **options: Any) -> dict[str, Any]:
        raise NotImplementedError

    async def astream_chat_with_tools(  # type: ignore[override]
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **options: Any
    ) -> AsyncGenerator[ChatResponse, None]:
        self.asked.append([(message.role.value, message.content) for message in chat_history])
        calls = []
        if len(self.asked) == 1:
            calls = [ToolSelection(tool_id="c1", tool_name="bm25", tool_kwargs={"query": "rule"})]

        async def stream() -> AsyncGenerator[ChatResponse, None]:
            text = ""
            for delta in [""] if calls else ["Forty", "-two."]:
                text += delta
                extra = {"tool_calls": calls}
                yield ChatResponse(
                    message=ChatMessage(role="assistant", content=text, additional_kwargs=extra), delta=delta
                )

        return stream()

    def get_tool_calls_from_response(self, response: Any, *args: Any, **options: Any) -> list[ToolSelection]:
        calls: list[ToolSelection] = response.message.additional_kwargs.get("tool_calls", [])
        return calls

    def _unused(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError

    chat = stream_chat = complete = stream_complete = _unused
    achat = astream_chat = acomplete = astream_complete = _unused


def bm25(query: str) -> str:
    """Search."""
    return f"{query}: forty-two."


def test_an_agent_is_a_turn_with_its_calls_and_text() -> None:
    model = Scripted()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        return await ragwire.llama_index.run(FunctionAgent(tools=[bm25], llm=model), question, sink)

    history = [{"role": "user", "text": "Hello."}, {"role": "assistant", "text": "Hi."}]
    shown = ask(answer, "What?", history=history)
    assert shown.events == [
        {"event": "tool_call", "tool": "bm25", "input": {"query": "rule"}, "call_id": "c1"},
        {"event": "tool_result", "tool": "bm25", "result": "rule: forty-two.", "call_id": "c1"},
    ]
    assert shown.text == "Forty-two."
    assert shown.metadata["tools_used"] == ["bm25"]
    assert model.asked[0] == [("user", "Hello."), ("assistant", "Hi."), ("user", "What?")]


class Step(Event):
    n: int


class Asking(Workflow):
    """Reports a step and asks a human."""

    @step
    async def begin(self, ctx: Context, start: StartEvent) -> InputRequiredEvent:
        ctx.write_event_to_stream(Step(n=1))
        return InputRequiredEvent(prefix=f"{start.topic}?", options=["Yes", "No"])  # type: ignore[call-arg]

    @step
    async def finish(self, answer: HumanResponseEvent) -> StopEvent:
        return StopEvent(result=f"You said {answer.response}.")


def test_a_workflow_reports_its_own_events_and_asks_a_human() -> None:
    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        return await ragwire.llama_index.run(Asking(), question, sink, topic=question.prompt)

    shown = ask(answer, "Go", "No")
    assert shown.text == "You said No."
    assert shown.names == ["Step", "input_requested", "input_resolved"]
    assert shown.events[0] == {"event": "Step", "data": {"n": 1}}
    assert (shown.events[1]["prompt"], shown.events[1]["options"]) == ("Go?", ["Yes", "No"])


def test_a_query_engine_is_a_turn_with_its_nodes_as_sources_and_citations() -> None:
    meta = {"file_name": "rules.pdf", "page_label": "3"}
    index = SummaryIndex.from_documents([Document(text="The rule is forty-two.", metadata=meta)])
    for streaming in (True, False):
        engine = index.as_query_engine(llm=MockLLM(max_tokens=3), streaming=streaming)

        async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
            return await ragwire.llama_index.query(engine, question, sink)

        shown = ask(answer, "What?")
        assert shown.text.split() == ["text", "text", "text"]
        assert shown.names == ["search", "sources"]
        (source,), (citation,) = shown.events[1]["sources"], shown.metadata["citations"]
        assert (source["document_id"], source["page_numbers"]) == ("rules.pdf", [3])
        assert citation == {
            "document_id": "rules.pdf",
            "chunk_id": source["chunk_id"],
            "supporting_quote": "The rule is forty-two.",
            "source_tool": "query_engine",
            "page_number": 3,
        }
