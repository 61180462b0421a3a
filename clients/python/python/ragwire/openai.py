"""Streams of the `openai` package as turns: `pip install ragwire[openai]`."""

from __future__ import annotations

from collections.abc import AsyncIterable
from typing import Any

from ragwire import Failure, Metadata, Question, Sink
from ragwire._adapters import Needs, history, put_call, put_text, put_thought

with Needs("openai"):
    from openai.types.chat import ChatCompletionChunk
    from openai.types.responses import (
        ResponseCompletedEvent,
        ResponseErrorEvent,
        ResponseFailedEvent,
        ResponseIncompleteEvent,
        ResponseOutputItemDoneEvent,
        ResponseReasoningSummaryTextDeltaEvent,
        ResponseReasoningTextDeltaEvent,
        ResponseRefusalDeltaEvent,
        ResponseStreamEvent,
        ResponseTextDeltaEvent,
    )


def messages(question: Question) -> list[Any]:
    """Returns the conversation and its question, for `messages` or, with the Responses API, `input`.

    Args:
        question: The question of the turn.
    """
    return [{"role": role, "content": text} for role, text in (*history(question), ("user", question.prompt))]


async def chat(stream: AsyncIterable[ChatCompletionChunk], sink: Sink) -> Metadata:
    """Streams `await client.chat.completions.create(stream=True, …)`; returns tools and usage.

    Text is the answer, `reasoning_content` of compatible servers is a thought, and a tool call is
    an event when its arguments are complete. What the stream and the sink raise passes through.

    Args:
        stream: The stream of the client.
        sink: The sink of the turn.

    Raises:
        Failure: The stream ends without a `finish_reason`.
    """
    calls: dict[int, dict[str, str]] = {}
    usage, is_finished = None, False
    async for chunk in stream:
        usage = _usage(chunk, chunk.usage.prompt_tokens, chunk.usage.completion_tokens) if chunk.usage else usage
        for choice in chunk.choices[:1]:
            await put_thought(sink, getattr(choice.delta, "reasoning_content", None), chunk.id)
            await put_text(sink, choice.delta.content or choice.delta.refusal)
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, {"id": "", "name": "", "arguments": ""})
                call["id"] = part.id or call["id"]
                if part.function:
                    call["name"] += part.function.name or ""
                    call["arguments"] += part.function.arguments or ""
            is_finished |= choice.finish_reason is not None
    if not is_finished:
        raise Failure("upstream_truncated", "The model's answer broke off. Please retry.")
    for call in calls.values():
        await put_call(sink, call["name"], call["arguments"], call["id"])
    return Metadata(tools_used=[call["name"] for call in calls.values()], usage=usage)


async def responses(stream: AsyncIterable[ResponseStreamEvent], sink: Sink) -> Metadata:
    """Streams `await client.responses.create(stream=True, …)`, as `chat` does.

    Args:
        stream: The stream of the client.
        sink: The sink of the turn.

    Raises:
        Failure: The response failed, or the stream ends before it is complete.
    """
    tools: list[str] = []
    async for event in stream:
        if isinstance(event, (ResponseTextDeltaEvent, ResponseRefusalDeltaEvent)):
            await put_text(sink, event.delta)
        elif isinstance(event, (ResponseReasoningTextDeltaEvent, ResponseReasoningSummaryTextDeltaEvent)):
            await put_thought(sink, event.delta, event.item_id)
        elif isinstance(event, ResponseOutputItemDoneEvent) and event.item.type == "function_call":
            tools.append(event.item.name)
            await put_call(sink, event.item.name, event.item.arguments, event.item.call_id)
        elif isinstance(event, (ResponseCompletedEvent, ResponseIncompleteEvent)):
            used = event.response.usage
            usage = _usage(event.response, used.input_tokens, used.output_tokens) if used else None
            return Metadata(tools_used=tools, usage=usage)
        elif isinstance(event, (ResponseFailedEvent, ResponseErrorEvent)):
            raise Failure("upstream_failed", "The model failed. Please retry.")
    raise Failure("upstream_truncated", "The model's answer broke off. Please retry.")


def _usage(chunk: Any, input_tokens: int, output_tokens: int) -> dict[str, Any]:
    return {"input_tokens": input_tokens, "output_tokens": output_tokens, "model": chunk.model}
