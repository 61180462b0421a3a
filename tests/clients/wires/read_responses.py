"""Asks the Responses server at argv[1] with the stream helper of PyPI `openai` and prints the result."""

import json
import sys

from openai import OpenAI

client = OpenAI(api_key="x", base_url=f"{sys.argv[1]}/v1", max_retries=0)
seen = {"events": [], "deltas": "", "numbers": [], "error": None}


def shown(item):
    if item.type == "file_search_call":
        return {"type": item.type, "status": item.status, "queries": item.queries}
    if item.type == "mcp_call":
        names = ["type", "status", "name", "arguments", "output", "error"]
        return {name: getattr(item, name) for name in names}
    if item.type == "reasoning":
        return {"type": item.type, "status": item.status, "lines": [part.text for part in item.summary]}
    [content] = item.content
    annotations = [annotation.to_dict() for annotation in content.annotations]
    return {"type": item.type, "status": item.status, "text": content.text, "annotations": annotations}


def reduced(response):
    usage = response.usage
    return {
        "status": response.status,
        "error": response.error.message if response.error else None,
        "text": response.output_text,
        "output": [shown(item) for item in response.output],
        "usage": [usage.input_tokens, usage.output_tokens] if usage else None,
        "metadata": (response.model_extra or {}).get("ragwire"),
    }


try:
    response = None
    with client.responses.stream(model="rag", input="?") as stream:
        for event in stream:
            seen["numbers"].append(event.sequence_number)
            extension = (event.model_extra or {}).get("ragwire")
            if extension:
                seen["events"].append(extension["event"])
            if event.type == "response.output_text.delta":
                seen["deltas"] += event.delta
            if event.type in ("response.completed", "response.failed", "response.incomplete"):
                response = event.response
    # The helper's own result is for completed responses only.
    if response.status == "completed":
        response = stream.get_final_response()
    seen["response"] = reduced(response)
except Exception as error:
    seen["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(seen))
