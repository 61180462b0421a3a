"""Runs LlamaIndex workflows and query engines as turns: `pip install ragwire[llama-index]`."""

from __future__ import annotations

from typing import Any

from ragwire import Metadata, Question, Sink
from ragwire._adapters import Needs, ask, citation, history, plain, put_call, put_result, put_text, put_thought, source

with Needs("llama-index"):
    from llama_index.core.agent.workflow import AgentStream, ToolCall, ToolCallResult
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.workflow import HumanResponseEvent, InputRequiredEvent, StopEvent

_ASKED = {"prompt": "prefix", "options": "options", "kind": "kind"}


async def run(workflow: Any, question: Question, sink: Sink, **start: Any) -> Metadata:
    """Streams an agent or any other workflow; returns the tools it used.

    An `InputRequiredEvent` asks a human. An event class of your own is an event under its name. A
    result that was not streamed is the answer. What the workflow and the sink raise passes through;
    a turn that is cancelled cancels the run.

    Args:
        workflow: The workflow.
        question: The question of the turn.
        sink: The sink of the turn.
        start: The arguments of `workflow.run`. Default: the conversation as `user_msg` and
            `chat_history`.
    """
    if not start:
        earlier = [ChatMessage(role=role, content=text) for role, text in history(question)]
        start = {"user_msg": question.prompt, "chat_history": earlier}
    handler = workflow.run(**start)
    tools: dict[str, None] = {}
    streamed = False
    try:
        async for event in handler.stream_events():
            if isinstance(event, AgentStream):
                await put_thought(sink, event.thinking_delta, event.current_agent_name)
                streamed |= bool(event.delta)
                await put_text(sink, event.delta)
            elif isinstance(event, ToolCallResult):
                output = event.tool_output
                await put_result(sink, event.tool_name, output.content, event.tool_id, output.is_error)
            elif isinstance(event, ToolCall):
                tools[event.tool_name] = None
                await put_call(sink, event.tool_name, event.tool_kwargs, event.tool_id)
            elif isinstance(event, InputRequiredEvent):
                answer = await ask(sink, {name: event.get(key, None) for name, key in _ASKED.items()})
                handler.ctx.send_event(HumanResponseEvent(**{"response": answer}))
            elif not isinstance(event, StopEvent) and not type(event).__module__.startswith("llama_index."):
                await sink.event(type(event).__name__, plain(event.model_dump()))
        result = await handler
    finally:
        await handler.cancel_run()
    if not streamed:
        await put_text(sink, str(result))
    return Metadata(tools_used=list(tools))


async def query(engine: Any, question: Question, sink: Sink) -> Metadata:
    """Streams a query engine; its nodes are the sources and citations.

    Args:
        engine: The query engine, with `streaming=True` to stream.
        question: The question of the turn.
        sink: The sink of the turn.
    """
    await sink.event("search", tool="query_engine", query=question.prompt)
    response = await engine.aquery(question.prompt)
    sources = [source(n.node_id, n.get_content(), n.metadata, n.score) for n in response.source_nodes]
    await sink.event("sources", sources=sources)
    if not hasattr(response, "async_response_gen"):
        await put_text(sink, str(response))
    else:
        async for text in response.async_response_gen():
            await put_text(sink, text)
    return Metadata(citations=[citation(each, "query_engine") for each in sources], tools_used=["query_engine"])
