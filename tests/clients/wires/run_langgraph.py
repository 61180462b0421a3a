"""Uses PyPI `langgraph-sdk` against the server at a URL and prints what it gets as JSON."""

import asyncio
import json
import sys

from langgraph_sdk import get_client


def human(text):
    return {"messages": [{"role": "user", "content": text}]}


async def main(url):
    client = get_client(url=url, api_key=None)
    thread = (await client.threads.create())["thread_id"]
    text, values, run, first = "", None, {}, None
    stream = client.runs.stream(
        thread, "ragwire", input=human("What is the commit rule?"), stream_mode=["messages-tuple", "values"]
    )
    async for part in stream:
        if part.event == "metadata":
            first = part.data["run_id"]
        elif part.event == "messages":
            message, _ = part.data
            if message["type"] == "AIMessageChunk":
                text += message["content"]
        elif part.event == "values":
            values = part.data
    state = await client.threads.get_state(thread)
    answers = [message["content"] for message in state["values"]["messages"] if message["type"] == "ai"]
    created = await client.runs.create(thread, "ragwire", input=human("fault:slow"))
    last = None
    async for part in client.runs.join_stream(thread, created["run_id"], stream_mode=["messages-tuple"]):
        if last is None:
            await client.runs.cancel(thread, created["run_id"], wait=True)
        last = part.event
    run = await client.runs.get(thread, created["run_id"])
    runs = [listed["run_id"] for listed in await client.runs.list(thread, limit=5)]
    imported = (await client.threads.create(metadata={"topic": "birds"}))["thread_id"]
    messages = [{"type": "human", "content": "Imported?"}, {"type": "ai", "content": "Yes."}]
    await client.threads.update_state(imported, {"messages": messages})
    edited = [message["content"] for message in (await client.threads.get_state(imported))["values"]["messages"]]
    history = await client.threads.get_history(imported)
    found = await client.threads.search(metadata={"topic": "birds"})
    failure = None
    async for part in client.runs.stream(None, "ragwire", input=human("fault:text")):
        if part.event == "error":
            failure = part.data["error"]
    kinds = [values["messages"][0]["type"], values["messages"][-1]["type"]]
    seen = {
        "types": kinds,
        "text": text,
        "state": "".join(answers),
        "ended": last,
        "status": run["status"],
        "failure": failure,
        "first": first,
        "run": run["run_id"],
        "runs": runs,
        "edited": edited,
        "history": len(history),
        "found": len(found),
    }
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
