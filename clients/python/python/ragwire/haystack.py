"""Runs Haystack pipelines as turns: `pip install ragwire[haystack]`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Optional

from ragwire import Metadata, Question, Sink
from ragwire._adapters import Needs, citation, put_call, put_result, put_text, put_thought, source
from ragwire.events import Source

with Needs("haystack"):
    from haystack.dataclasses import ChatMessage, StreamingChunk


async def run(
    pipeline: Any, question: Question, sink: Sink, *, data: Mapping[str, Any], stream_from: Collection[str]
) -> Metadata:
    """Streams a pipeline; its documents are the sources and citations.

    A reply that was not streamed is sent whole. What the pipeline and the sink raise passes through.

    Args:
        pipeline: The pipeline.
        question: The question of the turn.
        sink: The sink of the turn.
        data: The pipeline's input.
        stream_from: The names of the components whose text is the answer. They wait while the reader
            is slow: `Pipeline.stream` would collect their text without a limit.
    """
    has_text = False
    seen: dict[str, str] = {}
    sources: dict[str, list[Source]] = {}

    async def emit(chunk: StreamingChunk) -> None:
        nonlocal has_text
        has_text |= bool(chunk.content)
        await put_text(sink, chunk.content)
        if chunk.reasoning is not None:
            await put_thought(sink, chunk.reasoning.reasoning_text, "reasoning")

    inputs = {name: dict(members) if isinstance(members, Mapping) else members for name, members in data.items()}
    for name in stream_from:
        inputs.setdefault(name, {})["streaming_callback"] = emit
    outputs: Any
    async for outputs in pipeline.run_async_generator(inputs, include_outputs_from=set(pipeline.graph.nodes)):
        for component, output in outputs.items():
            found = [source(d.id, d.content or "", d.meta, d.score) for d in output.get("documents", ())]
            if found and sources.get(component) != found:
                sources[component] = found
                await sink.event("sources", sources=sources[component])
            for message in output.get("messages", output.get("replies", ())):
                await _message(message, sink, seen)
            replies = output.get("replies", ()) if component in stream_from else ()
            if replies and not has_text:
                has_text = True
                await put_text(sink, replies[-1].text if isinstance(replies[-1], ChatMessage) else replies[-1])
    cited = [citation(each, name) for name, found in list(sources.items())[-1:] for each in found]
    return Metadata(citations=cited, tools_used=list(dict.fromkeys([*sources, *seen.values()])))


async def _message(message: object, sink: Sink, seen: dict[str, str]) -> None:
    # The outputs of a component arrive when it ends, and once more with those of the pipeline.
    for call in message.tool_calls if isinstance(message, ChatMessage) else ():
        if seen.setdefault(f"call {call.id}", "") == "":
            seen[f"call {call.id}"] = call.tool_name
            await put_call(sink, call.tool_name, call.arguments, call.id)
    for each in message.tool_call_results if isinstance(message, ChatMessage) else ():
        if each.origin.id not in seen:
            seen[str(each.origin.id)] = each.origin.tool_name
            await put_result(sink, each.origin.tool_name, each.result, each.origin.id, each.error)
