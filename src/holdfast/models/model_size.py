"""How many parameters a model has, read from its name or from what a server says about it. Pure functions.

The size decides which tools a model is shown (`agent/tool_profile.py`). Unknown is an answer: None.
"""

import re
from collections.abc import Mapping
from typing import Any

UNITS = {"b": 1_000_000_000, "m": 1_000_000}
# "1.5b", "8x7B", "135M", "e4b"; not the active part of "30b-a3b", and no letters that only contain one.
SIZE = re.compile(r"(?<![a-z0-9.])e?(?:(\d+)x)?(\d+(?:\.\d+)?)\s?([bm])(?![a-z0-9])", re.IGNORECASE)
# A smaller number of millions is something else: "1m" stands for the window.
MIN_PARAMETERS = 10_000_000


def parameters_in(text: str) -> int | None:
    """The size that a name such as `qwen2.5-1.5b-instruct` tells; the largest when there are several."""
    sizes = [
        int(int(times or 1) * float(number) * UNITS[unit.lower()])
        for times, number, unit in SIZE.findall(text)
    ]
    return max((size for size in sizes if size >= MIN_PARAMETERS), default=None)


def stated_parameters(entry: Mapping[str, Any]) -> int | None:
    """The size in an entry of a server's list: llama.cpp counts it, Ollama writes it as text."""
    meta, details = entry.get("meta"), entry.get("details")
    counted = meta.get("n_params") if isinstance(meta, Mapping) else None
    if isinstance(counted, int) and counted >= MIN_PARAMETERS:
        return counted
    written = details.get("parameter_size") if isinstance(details, Mapping) else None
    return parameters_in(written) if isinstance(written, str) else None
