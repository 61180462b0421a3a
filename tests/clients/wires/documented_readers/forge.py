"""The Python reader of Forge's "Streaming Protocol" page, unchanged except for the URL; prints the data of a URL's events."""

import asyncio
import json
import sys

import httpx

seen = []


async def stream_query(url: str, query: str, mode: str = "agentic"):
    async with httpx.AsyncClient() as client:
        async with client.stream(
            "POST",
            url,
            json={"query": query, "mode": mode},
        ) as response:
            event_type = None
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    event_type = line[7:]
                elif line.startswith("data: ") and event_type:
                    data = json.loads(line[6:])
                    seen.append(data)
                    event_type = None


async def main():
    everything = []
    for url in sys.argv[1:]:
        seen.clear()
        await stream_query(url, "q")
        everything.append(list(seen))
    print(json.dumps(everything))


if __name__ == "__main__":
    asyncio.run(main())
