"""A scripted model server in a process of its own, for programs that tests start."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

KEPT = ("PATH", "PYTHONPATH")


@contextmanager
def scripted_server(script: Sequence[Any], folder: Path) -> Iterator[dict[str, str]]:
    """Serve the script; gives the environment in which a program finds the server and nothing else."""
    (folder / "script.json").write_text(json.dumps(script))
    command = [sys.executable, "-m", "holdfast.testing.scripted_server", "--script", "script.json"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        yield {**kept, "HOME": str(folder), "OPENAI_BASE_URL": server.stdout.readline().strip()}
    finally:
        server.kill()
        server.communicate()
