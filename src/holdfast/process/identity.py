"""Which process this is, in words by which another one on this machine can prove that it is gone.

A process id alone proves nothing: it is used again, and in another container it is another process. So the
mark holds the process's start too, and the machine's boot with the id space. What can't be proved is believed
to live. Only Linux tells all of it; elsewhere no process is ever called gone.
"""

import os
from hashlib import sha256
from pathlib import Path

UNKNOWN = "-"
STATE, START = 0, 19
"""Places in /proc/PID/stat, counted behind the command's name."""


def process_mark() -> str:
    """PID:START:PLACE of this process."""
    fields = _stat(os.getpid())
    return f"{os.getpid()}:{fields[START] if fields else UNKNOWN}:{_place()}"


def is_gone(mark: str) -> bool:
    """Whether the process that made this mark has ended, beyond doubt."""
    pid, _, rest = mark.partition(":")
    start, _, place = rest.partition(":")
    if UNKNOWN in (start, place) or not pid.isdecimal() or not start.isdecimal() or place != _place():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it is another user's, so it lives
    fields = _stat(int(pid))
    if not fields:
        return False  # it may not be looked at
    return fields[START] != start or (fields[STATE] in ("Z", "X") and _threads(int(pid)) <= 1)


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    # The command's name stands in parentheses and may hold anything.
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > START else []


def _threads(pid: int) -> int:
    """A leader that has ended looks like a dead process while its threads still run."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0


def _place() -> str:
    """The running kernel and the space of process ids in it, shortly."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return UNKNOWN
    return sha256(f"{boot} {space}".encode()).hexdigest()[:12]
