"""The Python clients in one process.

Reads jobs `{"id", "client", "url", "prompt", "session"?}`, one on each line, and answers each with
`{"id", "seen"}`, where `seen` is the record of record.js. A server that cannot be reached is recorded like
any other broken connection.
"""

import asyncio
import functools
import importlib.util
import json
import pathlib
import sys
import uuid

import httpx
import httpx._transports.default
import httpx2._transports.default
import openai
from trustgraph.api import Api
from trustgraph.api.exceptions import TrustGraphException

WIRES = pathlib.Path(__file__).parents[1] / "clients" / "wires"

# Each new client reads the system's certificates, which takes 40 ms, and nothing here is encrypted. `openai`
# has its own httpx.
for library in (httpx, httpx2):
    transports = library._transports.default
    transports.create_ssl_context = functools.cache(transports.create_ssl_context)


def load(path):
    """Loads a reader of tests/clients/wires as a module; the readers are not in a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


forge_reader = load(WIRES / "documented_readers" / "forge.py")
session_chat_reader = load(WIRES / "documented_readers" / "session_chat.py")


def nothing():
    return {"text": "", "events": [], "outcome": "unreported", "status": None, "error": None, "citations": None}


def refused(seen, status, body):
    error = json.loads(body)["error"]
    reported = {"code": error["code"], "message": error["message"]}
    seen.update(status=status, outcome="http-error", error=reported)


def broke(seen, error):
    if seen["outcome"] == "unreported":
        seen.update(outcome="truncated", error={"message": f"{type(error).__name__}: {error}"})


def end(seen, status, metadata, error):
    seen.update(outcome=status, citations=len(metadata["citations"]))
    if error:
        seen["error"] = {"code": error["code"], "message": error["message"]}


async def ask(seen, url, accept, prompt):
    """The lines of an answer, read with `aiter_lines` as the documented Python readers do."""
    async with httpx.AsyncClient() as client:
        async with client.stream("POST", f"{url}/v1/turns", json={"prompt": prompt}, headers={"accept": accept}) as response:
            if response.status_code != 200:
                refused(seen, response.status_code, await response.aread())
                return
            async for line in response.aiter_lines():
                yield line


def frame(seen, frame):
    if "event" in frame:
        seen["events"].append(frame["event"])
    elif "text" in frame:
        seen["text"] += frame["text"]
    else:
        end(seen, frame["end"], frame["metadata"], frame.get("error"))


async def ndjson(seen, url, prompt):
    async for line in ask(seen, url, "application/x-ndjson", prompt):
        if line.strip():
            frame(seen, json.loads(line))


async def sse(seen, url, prompt):
    async for line in ask(seen, url, "text/event-stream", prompt):
        if line.startswith("data: "):
            frame(seen, json.loads(line[6:]))


async def framed(seen, url, prompt):
    """Reads bytes, because line readers do not work: PROTOCOL.md, F-01."""
    path = f"/v1/rag/sessions/{uuid.uuid4()}/messages/stream"
    body = b""
    async with httpx.AsyncClient() as client:
        async with client.stream("POST", url + path, json={"prompt": prompt}) as response:
            if response.status_code != 200:
                return refused(seen, response.status_code, await response.aread())
            try:
                async for chunk in response.aiter_raw():
                    body += chunk
            finally:
                head, _, rest = body.partition(b"\x1d")
                # An unfinished line is not an event.
                lines = head.split(b"\n")[:-1]
                seen["events"] = [json.loads(line)["event"] for line in lines if line.strip()]
                text, found, trailer = rest.partition(b"\x1e")
                seen["text"] = text.decode(errors="ignore")
                if found:
                    close_framed(seen, trailer)


def close_framed(seen, trailer):
    try:
        metadata = json.loads(trailer)
    except ValueError:
        return
    seen["events"] += [event["event"] for event in metadata.get("events", [])]
    end(seen, metadata.get("status", "completed"), metadata, metadata.get("error"))


# The reader collects the events of all its streams in one list.
forge_reads = asyncio.Lock()


async def forge(seen, url, prompt):
    async with forge_reads:
        forge_reader.seen.clear()
        try:
            await forge_reader.stream_query(f"{url}/api/query/stream", prompt, "direct")
        finally:
            for data in forge_reader.seen:
                forge_event(seen, data)


def forge_event(seen, data):
    match data["type"]:
        case "token":
            seen["text"] += data["content"]
        case "error":
            seen.update(outcome="failed", error={"code": data["code"], "message": data["message"]})
        case "done" if seen["outcome"] == "unreported":
            seen["outcome"] = data.get("status", "completed")
        case "done":
            pass  # The `error` before it has set the outcome.
        case name:
            seen["events"].append(name)
            if name == "sources":
                seen["citations"] = len(data["sources"])


async def session_chat(seen, url, prompt, session):
    async for event in session_chat_reader.stream_chat(f"{url}/v1/sessions/{session}/chat/stream", prompt):
        match event["type"]:
            case "complete":
                response = event["response"]
                seen.update(outcome="completed" if response["finished"] else "stopped", text=response["content"])
                # Empty metadata is left out.
                seen["citations"] = len(event.get("metadata", {}).get("citations", []))
            case "error":
                seen.update(outcome="failed", error={"message": event["error"]})
            case "round_start" | "generating" | "tool_start" | "tool_end":
                pass  # Derived from other events, which the stream has too.
            case name:
                seen["events"].append(name)


def openai_client(url):
    return openai.AsyncOpenAI(api_key="x", base_url=f"{url}/v1", max_retries=0)


def openai_question(prompt):
    return {"model": "ragwire", "messages": [{"role": "user", "content": prompt}]}


def openai_raised(seen, error):
    if not error.code:
        raise error
    status = getattr(error, "status_code", None)
    told = {"code": error.code, "message": error.body["message"]}
    seen.update(error=told, status=status, outcome="http-error" if status else "failed")


def openai_ended(seen, trailer):
    seen.update(outcome=trailer.get("status", "completed"), citations=len(trailer["citations"]))


async def openai_stream(seen, url, prompt):
    try:
        async with openai_client(url) as client:
            async for chunk in await client.chat.completions.create(**openai_question(prompt), stream=True):
                extension = (chunk.model_extra or {}).get("ragwire", {})
                if "event" in extension:
                    seen["events"].append(extension["event"]["event"])
                for choice in chunk.choices:
                    seen["text"] += choice.delta.content or ""
                    if choice.finish_reason:
                        openai_ended(seen, extension)
    except openai.APIError as error:
        openai_raised(seen, error)


async def openai_whole(seen, url, prompt):
    try:
        async with openai_client(url) as client:
            whole = await client.chat.completions.create(**openai_question(prompt))
        seen["text"] = whole.choices[0].message.content
        openai_ended(seen, whole.model_extra["ragwire"])
    except openai.APIError as error:
        openai_raised(seen, error)


# The time for a client to notice that its socket is closed.
GRACE_S = 0.1


async def trustgraph(seen, url, prompt):
    await asyncio.to_thread(trustgraph_ask, seen, url, prompt)


def trustgraph_ask(seen, url, prompt):
    """Asks with the synchronous client, which runs its own loop between two chunks."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    socket = Api(url).socket()
    watching = loop.create_task(trustgraph_watch(socket))
    try:
        for chunk in socket.flow("default").graph_rag(query=prompt, collection="c", streaming=True):
            seen["text"] += chunk.content
        # The loop ends only with the last message.
        seen["outcome"] = "completed"
    except asyncio.CancelledError:
        seen["outcome"] = "hangs"
    except TrustGraphException as error:
        seen.update(outcome="failed", error={"code": error.error_type, "message": error.message})
    finally:
        watching.cancel()
        socket.close()
        loop.close()


async def trustgraph_watch(socket):
    """Cancels the client when its socket is closed, because it would wait for the next message."""
    while socket._reader_task is None:
        await asyncio.sleep(0.001)
    await asyncio.wait([socket._reader_task])
    await asyncio.sleep(GRACE_S)
    # Messages that arrived before are still read.
    while not all(queue.empty() for queue in socket._pending.values()):
        await asyncio.sleep(GRACE_S)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


CLIENTS = {
    "framed": framed,
    "ndjson": ndjson,
    "sse": sse,
    "forge": forge,
    "session_chat": session_chat,
    "openai_stream": openai_stream,
    "openai_whole": openai_whole,
    "trustgraph": trustgraph,
}


async def answer(job):
    seen = nothing()
    session = [job["session"]] if "session" in job else []
    try:
        await CLIENTS[job["client"]](seen, job["url"], job["prompt"], *session)
    except Exception as error:  # Any exception of the client counts as its report.
        broke(seen, error)
    print(json.dumps({"id": job["id"], "seen": seen}), flush=True)


async def main():
    async with asyncio.TaskGroup() as tasks:
        while line := await asyncio.to_thread(sys.stdin.readline):
            tasks.create_task(answer(json.loads(line)))


asyncio.run(main())
