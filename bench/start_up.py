"""How soon `holdfast chat` is there: its prompt, and its conversations, beside the bare interpreter.

Alone: `python -m bench.start_up [ROUNDS]`. Each start has folders of its own and the default memory.
"""

import json
import os
import pty
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.table import Row, number, render

MAIN = "from holdfast.cli.main import main; main()"
PROMPT, OPEN = b"starting", b"ready"
"""What the status line says when the prompt can be typed at, and when the conversations are open."""
PATIENCE = 60.0
ROUNDS = 8
GOAL_MS = 500


class Start(NamedTuple):
    """One start of a chat."""

    prompt: float
    """Seconds until the prompt is drawn."""
    open: float
    """Seconds until the conversations are open."""
    cpu: float
    """Seconds of processor time until the prompt: about the time on an idle machine."""
    memory: int
    """KiB of memory when the conversations are open."""


def start_rows(folder: Path, rounds: int = ROUNDS) -> Iterator[Row]:
    """The bare interpreter and the chat, in turns; the first start compiles and fills caches."""
    bare, starts = [], []
    for attempt in range(rounds + 1):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        bare.append(time.perf_counter() - begun)
        starts.append(start_chat(folder / f"chat-{attempt}"))
    control = f"{number(median(bare[1:]) * 1000)} ms"
    for what, goal, taken in (
        ("`python -c pass`, prompt of `holdfast chat`", f"≤ {GOAL_MS} ms", [each.prompt for each in starts]),
        ("`python -c pass`, conversations of `holdfast chat`", "", [each.open for each in starts]),
    ):
        milliseconds = median(taken[1:]) * 1000
        met = milliseconds <= GOAL_MS if goal else None
        yield Row(f"start: {what}", control, f"{number(milliseconds)} ms", "", goal=goal, met=met)
    cpu = f"{number(min(each.cpu for each in starts) * 1000)} ms"
    yield Row("processor time until the prompt of `holdfast chat`", "", cpu, "")
    yield Row("memory at the prompt", "", f"{number(min(each.memory for each in starts) / 1024)} MiB", "")


def start_chat(home: Path) -> Start:
    """Start a chat on a terminal with a scripted model, and end it when its conversations are open."""
    home.mkdir()
    script = home / "script.json"
    script.write_text(json.dumps(["hello"]), encoding="utf-8")
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        # As after a person's first start, what is compiled stays so, whatever the machine of the bench says.
        "PYTHONPYCACHEPREFIX": str(home.parent / "compiled"),
        **{name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")},
        "HOLDFAST_MODEL_PROVIDER": "scripted",
        "HOLDFAST_MODEL_NAME": str(script),
        "HOLDFAST_TOOLS_WORKSPACE": str(home),
        "TERM": "xterm",
    }
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", MAIN, "chat"], environment)  # noqa: S606
    try:
        seen = _until(terminal, begun, (PROMPT, OPEN))
        cpu = _cpu(pid)
        seen |= _until(terminal, begun, (OPEN,))
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        resident = int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    return Start(min(seen.values()), seen[OPEN], cpu, resident)


def _cpu(pid: int) -> float:
    """Seconds of processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _until(terminal: int, begun: float, words: Sequence[bytes]) -> dict[bytes, float]:
    """When the first of the words was on the terminal."""
    written = b""
    while True:
        if time.perf_counter() - begun > PATIENCE:
            raise RuntimeError(f"no prompt came within {PATIENCE:g} s: {written[-300:]!r}")
        if select.select([terminal], [], [], 1.0)[0]:
            written += os.read(terminal, 65536)
            if b"\x1b[6n" in written:  # it asks where the cursor is
                os.write(terminal, b"\x1b[1;1R")
                written = written.replace(b"\x1b[6n", b"")
        for word in words:
            if word in written:
                return {word: time.perf_counter() - begun}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as name:
        print(render(list(start_rows(Path(name), rounds))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
