"""Put real servers into the checkout, each in an environment of its own; `make test-backends`.

They are large (the memory servers about 1.1 GB each) and bring dependencies that Holdfast must not share, so
they stand in `.cache/backends/NAME`. Nothing but the tests in `tests/backends` and `tests/gateway` uses them.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tools.bootstrap import ROOT, CannotBootstrap, ensure_uv, find_python, uv_environment

PACKAGES = {
    "hindsight": ("hindsight-api-slim[embedded-db]==1.1.0",),
    "openviking": ("openviking==0.5.2",),
    "synapse": ("matrix-synapse==1.163.2",),
}
PROGRAMS = {
    "hindsight": "hindsight-api",
    "openviking": "openviking-server",
    "synapse": "synapse_homeserver",
}
MEMORY_SERVERS = ("hindsight", "openviking")


def home(name: str) -> Path:
    return ROOT / ".cache" / "backends" / name


def program(name: str) -> Path | None:
    """The server's program, when exactly the pinned packages are installed."""
    stamp = home(name) / "holdfast-installed"
    if stamp.exists() and stamp.read_text() == stamped(name):
        return home(name) / "bin" / PROGRAMS[name]
    return None


def stamped(name: str) -> str:
    # The scripts of an environment name its path, so a moved checkout installs anew.
    return "\n".join([str(home(name)), *PACKAGES[name]])


def install(name: str) -> None:
    """Install one server, whole or not at all."""
    if program(name) is not None:
        return
    python = find_python(sys.executable)
    uv, environment = str(ensure_uv(python)), uv_environment(python)
    shutil.rmtree(home(name), ignore_errors=True)
    print(f"installing {' '.join(PACKAGES[name])} into {home(name).relative_to(ROOT)}", file=sys.stderr)
    for command in (
        [uv, "venv", "--quiet", str(home(name))],
        [uv, "pip", "install", "--quiet", "--python", str(home(name) / "bin" / "python"), *PACKAGES[name]],
    ):
        if subprocess.call(command, cwd=ROOT, env=environment) != 0:
            raise CannotBootstrap(f"uv could not install {name}; its message is above.")
    (home(name) / "holdfast-installed").write_text(stamped(name))


def main() -> int:
    try:
        for name in sys.argv[1:] or MEMORY_SERVERS:
            install(name)
    except CannotBootstrap as cause:
        print(cause, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
