"""`ragwire.haystack` with the real package and a scripted generator."""

from __future__ import annotations

import os
from typing import Any

import pytest
import ragwire
import ragwire.haystack
from haystack import Document, Pipeline, component
from haystack.components.builders import ChatPromptBuilder
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
from haystack.dataclasses import ChatMessage, ReasoningContent, StreamingChunk, ToolCall
from haystack.document_stores.in_memory import InMemoryDocumentStore
from serving import ask

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
CALL = ToolCall("lookup", {"word": "rule"}, id="c1")


@component
class Scripted:
    """Streams the answer, or returns it whole."""

    def __init__(self, streams: bool) -> None:
        self.streams = streams

    @component.output_types(replies=list[ChatMessage], messages=list[ChatMessage])
    def run(self, messages: list[ChatMessage], streaming_callback: Any = None) -> dict[str, Any]:
        raise NotImplementedError

    @component.output_types(replies=list[ChatMessage], messages=list[ChatMessage])
    async def run_async(self, messages: list[ChatMessage], streaming_callback: Any = None) -> dict[str, Any]:
        if self.streams:
            await streaming_callback(StreamingChunk("", reasoning=ReasoningContent("Hm."), index=0))
            for text in ["Forty", "-two."]:
                await streaming_callback(StreamingChunk(text))
        reply = ChatMessage.from_assistant("Forty-two.")
        steps = [
            ChatMessage.from_assistant(tool_calls=[CALL]),
            ChatMessage.from_tool("42", origin=CALL),
            reply,
        ]
        return {"replies": [reply], "messages": steps}


@pytest.mark.parametrize("streams", [True, False])
def test_a_pipeline_is_a_turn_with_its_documents_calls_and_text(streams: bool) -> None:
    store = InMemoryDocumentStore()
    meta = {"source": "rules.pdf", "page_number": 3, "title": "Rules"}
    store.write_documents([Document(id="d1", content="The rule is forty-two.", meta=meta)])
    pipeline = Pipeline()
    pipeline.add_component("retriever", InMemoryBM25Retriever(store))
    pipeline.add_component("prompt", ChatPromptBuilder([ChatMessage.from_user("{{documents}} {{question}}")]))
    pipeline.add_component("llm", Scripted(streams))
    pipeline.connect("retriever", "prompt.documents")
    pipeline.connect("prompt.prompt", "llm.messages")

    async def answer(question: ragwire.Question, sink: ragwire.Sink) -> ragwire.Metadata:
        data = {"retriever": {"query": question.prompt}, "prompt": {"question": question.prompt}}
        return await ragwire.haystack.run(pipeline, question, sink, data=data, stream_from=["llm"])

    shown = ask(answer, "rule")
    assert shown.text == "Forty-two."
    score = shown.metadata["citations"][0]["score"]
    source = {"chunk_id": "d1", "document_id": "rules.pdf", "text": "The rule is forty-two.", "page_numbers": [3]}
    thought = [{"event": "thinking", "content": "Hm.", "id": "reasoning"}] if streams else []
    assert shown.events == [
        {"event": "sources", "sources": [{**source, "title": "Rules", "score": score}]},
        *thought,
        {"event": "tool_call", "tool": "lookup", "input": {"word": "rule"}, "call_id": "c1"},
        {"event": "tool_result", "tool": "lookup", "result": "42", "call_id": "c1"},
    ]
    assert shown.metadata["citations"] == [
        {
            "document_id": "rules.pdf",
            "chunk_id": "d1",
            "supporting_quote": "The rule is forty-two.",
            "source_tool": "retriever",
            "page_number": 3,
            "score": score,
        }
    ]
    assert shown.metadata["tools_used"] == ["retriever", "lookup"]
