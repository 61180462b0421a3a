"""`ragwire.langgraph` with the real package and a scripted model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ragwire
import ragwire.langgraph
from langchain_core.documents import Document
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from serving import ask

CALL: Any = {"name": "bm25", "args": '{"query": "rule"}', "id": "c1", "index": 0, "type": "tool_call_chunk"}
USAGE: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
SOURCE = {"chunk_id": "d1", "document_id": "rules.pdf"}
QUOTE = "The rule is forty-two."
SCRIPT = [
    [
        AIMessageChunk(content="", additional_kwargs={"reasoning_content": "Hm."}),
        AIMessageChunk(content="", tool_call_chunks=[CALL], usage_metadata=USAGE),
    ],
    [AIMessageChunk(content="Forty"), AIMessageChunk(content="-two.", usage_metadata=USAGE)],
]


class Scripted(BaseChatModel):
    """Streams one script after the other, and remembers what it was asked."""

    script: list[list[AIMessageChunk]]
    asked: list[Any] = []

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        raise NotImplementedError

    def _stream(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> Iterator[ChatGenerationChunk]:
        self.asked.append([(message.type, message.text) for message in messages])
        for message in self.script[len(self.asked) - 1]:
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(message.text, chunk=chunk)
            yield chunk


@tool(response_format="content_and_artifact")
def bm25(query: str) -> tuple[str, list[Document]]:
    """Search."""
    meta = {"source": "rules.pdf", "page_number": 3}
    return "Forty-two.", [Document(id="d1", page_content=f"The {query} is forty-two.", metadata=meta)]


def graph_of(model: BaseChatModel, *, approves: bool) -> Any:
    async def call(state: MessagesState) -> dict[str, Any]:
        get_stream_writer()({"event": "search", "tool": "bm25"})
        get_stream_writer()(7)
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def approve(state: MessagesState) -> dict[str, Any]:
        question: Any = {"prompt": "Search?", "options": ["Yes", "No"]} if approves else "Search?"
        get_stream_writer()({"event": "approved", "answer": interrupt(question)})
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("model", call)
    builder.add_node("approve", approve)
    builder.add_node("tools", ToolNode([bm25]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "approve" if s["messages"][-1].tool_calls else END, ["approve", END])
    builder.add_edge("approve", "tools")
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


def test_a_graph_is_a_turn_with_its_thoughts_calls_results_and_interrupts() -> None:
    model = Scripted(script=SCRIPT)
    graph = graph_of(model, approves=True)

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        return await ragwire.langgraph.run(graph, question, sink)

    history = [{"role": "user", "text": "Hello."}, {"role": "assistant", "text": "Hi."}]
    shown = ask(answer, "What is the rule?", "Yes", history=history)
    assert shown.text == "Forty-two."
    thought = shown.events.pop(2)
    assert (thought["event"], thought["content"]) == ("thinking", "Hm.")
    request = shown.events[3]["request_id"]
    assert shown.events == [
        {"event": "search", "tool": "bm25"},
        {"event": "custom", "data": 7},
        {"event": "tool_call", "tool": "bm25", "input": {"query": "rule"}, "call_id": "c1"},
        {
            "event": "input_requested",
            "request_id": request,
            "kind": "choice",
            "prompt": "Search?",
            "options": ["Yes", "No"],
        },
        {"event": "input_resolved", "request_id": request, "response": "Yes"},
        {"event": "approved", "data": {"answer": "Yes"}},
        {"event": "tool_result", "tool": "bm25", "result": "Forty-two.", "call_id": "c1"},
        {"event": "sources", "sources": [{**SOURCE, "text": QUOTE, "page_numbers": [3]}]},
        {"event": "search", "tool": "bm25"},
        {"event": "custom", "data": 7},
    ]
    assert shown.metadata["citations"] == [
        {**SOURCE, "supporting_quote": QUOTE, "source_tool": "bm25", "page_number": 3}
    ]
    assert shown.metadata["tools_used"] == ["bm25"]
    assert shown.metadata["usage"] == {"input_tokens": 6, "output_tokens": 8}
    first = [("human", "Hello."), ("ai", "Hi."), ("human", "What is the rule?")]
    assert model.asked == [first, [*first, ("ai", ""), ("tool", "Forty-two.")]]


def test_text_of_other_nodes_is_a_thought_and_a_question_may_be_a_text() -> None:
    graph = graph_of(Scripted(script=SCRIPT), approves=False)

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        return await ragwire.langgraph.run(graph, question, sink, answer_nodes=["another"])

    shown = ask(answer, "What?", {"any": "value"})
    assert shown.text == ""
    assert "".join(event["content"] for event in shown.events if event["event"] == "thinking") == "Hm.Forty-two."
    assert {"event": "approved", "data": {"answer": {"any": "value"}}} in shown.events


def test_tool_calls_are_decided_as_the_human_in_the_loop_of_langchain_expects() -> None:
    calls = [{"name": "delete", "args": {}, "description": f"Delete {name}?"} for name in ("a.txt", "b.txt")]
    configs = [
        {"action_name": "delete", "allowed_decisions": ["approve", "edit", "reject"]},
        {"action_name": "delete", "allowed_decisions": ["approve", "reject"]},
    ]

    async def decide(state: MessagesState) -> dict[str, Any]:
        decided = interrupt({"action_requests": calls, "review_configs": configs})
        get_stream_writer()({"event": "decided", "answer": decided})
        return {}

    builder = StateGraph(MessagesState)
    builder.add_node("decide", decide)
    builder.add_edge(START, "decide")
    graph = builder.compile(checkpointer=InMemorySaver())

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        return await ragwire.langgraph.run(graph, question, sink)

    shown = ask(answer, "Tidy up.", "approve")
    asked = shown.events[0]
    assert (asked["kind"], asked["prompt"]) == ("approval", "Delete a.txt?\nDelete b.txt?")
    assert asked["options"] == ["approve", "reject"]
    decisions = {"decisions": [{"type": "approve"}, {"type": "approve"}]}
    assert shown.events[-1] == {"event": "decided", "data": {"answer": decisions}}


def test_an_exception_in_a_node_fails_the_turn_without_its_text() -> None:
    async def broken(state: MessagesState) -> dict[str, Any]:
        get_stream_writer()({"event": "search", "tool": "bm25"})
        raise RuntimeError("password")

    builder = StateGraph(MessagesState)
    builder.add_node("broken", broken)
    builder.add_edge(START, "broken")
    graph = builder.compile()

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        return await ragwire.langgraph.run(graph, question, sink)

    shown = ask(answer, "What?")
    assert shown.end is not None and shown.end.error is not None
    assert (shown.end.status, shown.end.error["code"]) == ("failed", "chat_failed")
    assert "password" not in repr(shown.end) + repr(shown.events)
