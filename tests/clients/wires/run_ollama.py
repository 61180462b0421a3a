"""Uses PyPI `ollama` against the server at a URL and prints what it gets as JSON."""

import json
import sys

from ollama import Client, ResponseError

client = Client(host=sys.argv[1])
messages = [{"role": "user", "content": "What is the commit rule?"}]
thinking, text, done, error = "", "", 0, None
for part in client.chat(model="ragwire", messages=messages, stream=True):
    thinking += part.message.thinking or ""
    text += part.message.content
    done += part.done
whole = client.chat(model="ragwire", messages=messages).message.content
try:
    for _ in client.chat(model="ragwire", messages=[{"role": "user", "content": "fault:text"}], stream=True):
        pass
except ResponseError as raised:
    error = str(raised)
generated = "".join(part.response for part in client.generate("ragwire", "What is the commit rule?", stream=True))
try:
    refused = client.chat(model="ragwire", messages=messages, options={"top_k": 1}).message.content
except ResponseError as raised:
    refused = str(raised)
models = [model.model for model in client.list().models]
seen = {"thinking": thinking, "text": text, "done": done, "whole": whole, "error": error, "models": models}
print(json.dumps({**seen, "generated": generated, "refused": refused}))
