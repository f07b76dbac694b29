"""Installs hermes-agent, without its dependencies, for tests and benchmarks: `python -m tools.hermes_env`.

It goes into `.cache/backends/hermes`, never into `.venv`: nothing in `src/` may import it. Its memory plugins
are what `holdfast.providers.hermes` is tried with, and what the benchmarks measure beside ours.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.bootstrap import ROOT, ensure_uv, find_python, uv_environment

VERSION = "0.19.0"
PLACE = ROOT / ".cache" / "backends" / "hermes"


def hermes_folder() -> Path:
    """The folder to put on a path to import hermes-agent; installs it when it isn't there."""
    home = PLACE / VERSION
    if not home.exists():
        _install(home)
    return home


def hermes_plugins() -> Path:
    """The folder with its memory plugins, one folder each."""
    return hermes_folder() / "plugins" / "memory"


def _install(home: Path) -> None:
    PLACE.mkdir(parents=True, exist_ok=True)
    python = find_python(sys.executable)
    # Installed beside its place and moved there whole: two at once never see half of it.
    with tempfile.TemporaryDirectory(dir=PLACE, prefix="new-") as scratch:
        target = Path(scratch) / "hermes"
        command = [
            *(str(ensure_uv(python)), "pip", "install", "--quiet", "--no-deps", "--python", python),
            *("--target", str(target), f"hermes-agent=={VERSION}"),
        ]
        subprocess.run(command, env=uv_environment(python), check=True)
        if not home.exists():
            shutil.move(target, home)


if __name__ == "__main__":
    print(hermes_folder())
