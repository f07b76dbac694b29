"""Imports mem0 with telemetry off and its files in our folder, both set by environment variables."""

import importlib
import os
from pathlib import Path
from typing import Any


def import_mem0(folder: Path) -> Any:  # noqa: ANN401 - a library without types
    """Import the library; the environment is restored afterwards."""
    wanted = {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
    environment = os.environ  # noqa: TID251 - the library has no other way, and reads it at import alone
    before = {name: environment.get(name) for name in wanted}
    environment.update(wanted)
    try:
        return importlib.import_module("mem0")
    finally:
        for name, value in before.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
