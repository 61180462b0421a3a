"""Uses PyPI `mcp` against the server at a URL and prints what it gets as JSON."""

import asyncio
import json
import sys

from mcp import Client


async def main(url):
    steps = []

    async def progress(done, total, message):
        steps.append(message)

    async with Client(url) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("ask", {"question": "What is the commit rule?"}, progress_callback=progress)
        found = await client.call_tool("search", {"query": "commit rule", "limit": 3})
        failed = await client.call_tool("ask", {"question": "fault:text"})
    content = result.structured_content
    print(
        json.dumps(
            {
                "tools": tools,
                "text": result.content[0].text,
                "answer": content["answer"],
                "citations": len(content["citations"]),
                "passages": len(found.structured_content["passages"]),
                "progress": steps,
                "failed": failed.is_error,
            }
        )
    )


asyncio.run(main(sys.argv[1]))
