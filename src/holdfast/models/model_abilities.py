"""Reads from a server's entry for a model whether it calls tools and takes pictures. Pure functions.

Each kind of server says it in another way; None where the entry does not say it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

Entry = Mapping[str, Any]


def calls_tools(entry: Entry) -> bool | None:
    """Whether the model calls tools."""
    for names in (entry.get("capabilities"), entry.get("supported_parameters")):
        if _is_list(names):  # of Ollama, and of OpenRouter
            return "tools" in names
    return _flag(entry, "chat_template_caps", "supports_tools")  # llama.cpp


def sees_pictures(entry: Entry) -> bool | None:
    """Whether the model takes pictures."""
    capabilities = entry.get("capabilities")
    if _is_list(capabilities):  # Ollama
        return "vision" in capabilities
    shape = entry.get("architecture")
    inputs = shape.get("input_modalities") if isinstance(shape, Mapping) else None
    if _is_list(inputs):  # OpenRouter
        return "image" in inputs
    if isinstance(capabilities, Mapping):  # Anthropic
        return _flag(capabilities, "image_input", "supported")
    return _flag(entry, "modalities", "vision")  # llama.cpp


def _flag(entry: Entry, part: str, name: str) -> bool | None:
    inner = entry.get(part)
    value = inner.get(name) if isinstance(inner, Mapping) else None
    return value if isinstance(value, bool) else None


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str)
