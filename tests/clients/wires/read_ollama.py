"""Asks the Ollama server at argv[1] with PyPI `ollama` and prints what its chat shows."""

import json
import sys

from ollama import Client

seen = {"text": "", "thinking": "", "done": [], "counts": [], "total": None, "error": None}
try:
    messages = [{"role": "user", "content": "?"}]
    for part in Client(host=sys.argv[1]).chat(model="rag", messages=messages, stream=True, think=True):
        seen["text"] += part.message.content or ""
        seen["thinking"] += part.message.thinking or ""
        if part.done:
            seen["done"].append(part.done_reason)
            seen["counts"] = [part.prompt_eval_count, part.eval_count]
            seen["total"] = part.total_duration
except Exception as error:
    name = getattr(error, "error", error)
    seen["error"] = f"{type(error).__name__}: {name}"
print(json.dumps(seen))
