"""Prints the events that PyPI `langgraph-sdk` reads from the run stream at a URL."""

import asyncio
import json
import sys

from langgraph_sdk import get_client


async def main(url):
    client = get_client(url=url, api_key=None)
    seen = []
    async for part in client.runs.stream("t", "rag", input={}, stream_mode=["messages-tuple"]):
        seen.append({"id": part.id, "event": part.event, "data": part.data})
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
