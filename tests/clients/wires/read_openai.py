"""Asks the chat completions server at argv[1] with PyPI `openai` and prints the result; argv[2] is stream, whole or models."""

import json
import sys

from openai import APIError, OpenAI

client = OpenAI(api_key="x", base_url=f"{sys.argv[1]}/v1", max_retries=0)
messages = [{"role": "user", "content": "?"}]
seen = {"text": "", "reasoning": "", "annotations": [], "finish": [], "usage": None, "events": [], "metadata": None, "error": None}


def tokens(usage):
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details else None
    return [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, cached]


def read(chunk):
    extension = (chunk.model_extra or {}).get("ragwire")
    if extension and "event" in extension:
        seen["events"].append(extension["event"])
    elif extension:
        seen["metadata"] = extension
    if chunk.usage:
        seen["usage"] = tokens(chunk.usage)
    for choice in chunk.choices:
        seen["text"] += choice.delta.content or ""
        more = choice.delta.model_extra or {}
        seen["reasoning"] += more.get("reasoning_content") or ""
        seen["annotations"] += more.get("annotations") or []
        if choice.finish_reason:
            seen["finish"].append(choice.finish_reason)


try:
    if sys.argv[2] == "stream":
        for chunk in client.chat.completions.create(model="rag", messages=messages, stream=True):
            read(chunk)
    elif sys.argv[2] == "models":
        seen = [model.id for model in client.models.list()]
    else:
        whole = client.chat.completions.create(model="rag", messages=messages)
        message = whole.choices[0].message
        seen["text"] = message.content
        seen["reasoning"] = (message.model_extra or {}).get("reasoning_content", "")
        seen["annotations"] = [annotation.to_dict() for annotation in message.annotations or []]
        seen["finish"].append(whole.choices[0].finish_reason)
        seen["metadata"] = whole.model_extra["ragwire"]
        if whole.usage:
            seen["usage"] = tokens(whole.usage)
except APIError as error:
    seen["error"] = {"name": type(error).__name__, "message": error.message, "code": error.code, "type": error.type}
except Exception as error:  # A connection that broke is one of httpx's.
    seen["error"] = {"name": type(error).__name__}
print(json.dumps(seen))
