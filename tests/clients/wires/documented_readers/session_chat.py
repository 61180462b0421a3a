"""The Python reader of the session chat's "Streaming" page, unchanged except for the URL; prints a URL's events."""

import asyncio
import json
import sys

import httpx


async def stream_chat(url: str, message: str):
    async with httpx.AsyncClient() as client:
        async with client.stream(
            "POST",
            url,
            json={"message": message},
            timeout=None,
        ) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    data = line[6:].strip()
                    if data:
                        event = json.loads(data)
                        yield event


async def main():
    print(json.dumps([[event async for event in stream_chat(url, "q")] for url in sys.argv[1:]]))


if __name__ == "__main__":
    asyncio.run(main())
