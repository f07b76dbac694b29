"""Imports mem0 with telemetry off and its files in our folder."""

from pathlib import Path
from typing import Any

from holdfast.providers.library_import import import_library


def import_mem0(folder: Path) -> Any:  # noqa: ANN401 - a library without types
    return import_library("mem0", {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)})
