"""The content of another agent's message as the chat API has it: a text, or a list of parts."""

import json
from typing import Any

from holdfast.core.messages import storable


def chat_content(content: Any) -> Any:  # noqa: ANN401 - JSON in, a text or a list of parts out
    """A text where all parts are texts; parts of another kind stay as they are."""
    if isinstance(content, str):
        return storable(content)
    if not isinstance(content, list):
        return "" if content is None else storable(json.dumps(content))
    parts = [_part(part) for part in content]
    if all(part.get("type") == "text" and part.keys() == {"type", "text"} for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts


def _part(part: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    if not isinstance(part, dict):
        return {"type": "text", "text": storable(str(part))}
    match part.get("type"):
        case "input_text" | "output_text" | "text":
            return {"type": "text", "text": storable(str(part.get("text", "")))}
        case "refusal":
            return {"type": "text", "text": storable(str(part.get("refusal", "")))}
        case "input_image" if part.get("image_url"):
            return {"type": "image_url", "image_url": {"url": part["image_url"]}}
        case _:
            return part  # stored as it is; a model gets a text in its place
