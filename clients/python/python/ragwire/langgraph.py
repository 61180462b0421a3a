"""Runs a LangGraph graph as a turn: `pip install ragwire[langgraph]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Optional
from uuid import uuid4

from ragwire import Metadata, Question, Sink, _adapters as adapters
from ragwire.events import CitationRecord

with adapters.Needs("langgraph"):
    from langgraph.types import Command


async def run(
    graph: Any,
    question: Question,
    sink: Sink,
    *,
    input: Optional[Mapping[str, Any]] = None,
    config: Optional[Mapping[str, Any]] = None,
    answer_nodes: Collection[str] = (),
) -> Metadata:
    """Streams a compiled graph; returns its citations, tools and tokens.

    Model text is the answer, or a thought if `answer_nodes` lacks its node. Calls and results of
    tools are events, and so is what a node writes with `get_stream_writer`: a dictionary with a
    string `event` under that name, anything else as `custom`. Documents in the artifact of a tool
    message are sources and citations. An interrupt asks a human, and the run continues with the
    answer; the graph needs a checkpointer for that. What the graph and the sink raise passes
    through.

    Args:
        graph: The compiled graph.
        question: The question of the turn.
        sink: The sink of the turn.
        input: The input of the graph. Default: the conversation as `messages`.
        config: The configuration of the run. Default: a new thread.
        answer_nodes: The nodes whose text is the answer. Default: all nodes.
    """
    state: Any = input or {"messages": [*adapters.history(question), ("user", question.prompt)]}
    config = config or {"configurable": {"thread_id": str(uuid4())}}
    seen = _Seen()
    while state is not None:
        interrupts: list[Any] = []
        async for mode, data in graph.astream(state, config, stream_mode=["messages", "updates", "custom"]):
            if mode == "custom":
                await adapters.put_event(sink, data)
            elif mode == "messages" and data[0].type in ("ai", "AIMessageChunk"):
                is_answer = not answer_nodes or data[1].get("langgraph_node") in answer_nodes
                for block in data[0].content_blocks:
                    text, thought = block.get("text"), block.get("reasoning")
                    await adapters.put_thought(sink, thought if is_answer else thought or text, str(data[0].id))
                    await adapters.put_text(sink, text if is_answer else None)
            elif mode == "updates":
                interrupts += data.get("__interrupt__", ())
                updates = [each for each in data.values() if isinstance(each, Mapping)]
                for message in [m for each in updates for m in adapters.as_list(each.get("messages"))]:
                    await seen.put(sink, message)
        answers = {each.id: await adapters.ask(sink, each.value) for each in interrupts}
        state = Command(resume=answers) if answers else None
    return Metadata(citations=seen.citations, tools_used=list(seen.tools), usage=seen.usage)


class _Seen:
    def __init__(self) -> None:
        self.tools: dict[str, None] = {}
        self.citations: list[CitationRecord] = []
        self.usage: dict[str, int] | None = None

    async def put(self, sink: Sink, message: Any) -> None:
        for call in getattr(message, "tool_calls", ()):
            self.tools[call["name"]] = None
            await adapters.put_call(sink, call["name"], call["args"], call["id"])
        if getattr(message, "type", "") == "tool":
            tool, is_error = message.name or "", message.status == "error"
            await adapters.put_result(sink, tool, message.content, message.tool_call_id, is_error)
            documents = [d for d in adapters.as_list(message.artifact) if hasattr(d, "page_content")]
            ids = [d.id or f"{tool}-{at}" for at, d in enumerate(documents)]
            found = [adapters.source(id, d.page_content, d.metadata, None) for id, d in zip(ids, documents)]
            if found:
                await sink.event("sources", sources=found)
            self.citations += [adapters.citation(each, tool) for each in found]
        for name, tokens in (getattr(message, "usage_metadata", None) or {}).items():
            if name in ("input_tokens", "output_tokens"):
                self.usage = {**(self.usage or {}), name: (self.usage or {}).get(name, 0) + tokens}
