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
    text, values, run = "", None, {}
    stream = client.runs.stream(
        thread, "ragwire", input=human("What is the commit rule?"), stream_mode=["messages-tuple", "values"]
    )
    async for part in stream:
        if part.event == "messages":
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
    failure = None
    async for part in client.runs.stream(None, "ragwire", input=human("fault:text")):
        if part.event == "error":
            failure = part.data["error"]
    kinds = [values["messages"][0]["type"], values["messages"][-1]["type"]]
    print(
        json.dumps(
            {"types": kinds, "text": text, "state": "".join(answers), "ended": last, "status": run["status"], "failure": failure}
        )
    )


asyncio.run(main(sys.argv[1]))
