"""Programs that stand in for the interpreters of a machine."""

from pathlib import Path


def stand_in(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def interpreter(path: Path, version: str) -> Path:
    """An interpreter that knows nothing but its version and its place."""
    return stand_in(path, f'echo "{version}"; echo "{path}"')
