"""Reads one framed turn with httpx, as bytes, and prints the result as JSON.

It reads bytes and not lines, because `aiter_lines` takes 0x1D and 0x1E for line ends and deletes them
(PROTOCOL.md, F-01).
"""

import json
import sys

import httpx


def main(url: str, prompt: str) -> None:
    with httpx.stream("POST", url, json={"prompt": prompt}, timeout=60) as response:
        if response.status_code != 200:
            response.read()
            print(json.dumps({"status": response.status_code, "error": response.json()["error"]}))
            return
        head, chunks, body = None, 0, b""
        for chunk in response.iter_raw():
            chunks += 1
            body += chunk
    head, separator, rest = body.partition(b"\x1d")
    text, end, trailer = rest.partition(b"\x1e")
    assert separator and end, "the stream is not complete"
    events = [json.loads(line) for line in head.split(b"\n") if line.strip()]
    print(
        json.dumps(
            {
                "status": response.status_code,
                "chunks": chunks,
                "events": [event["event"] for event in events],
                "text": text.decode(),
                "trailer": json.loads(trailer),
            }
        )
    )


main(*sys.argv[1:])
