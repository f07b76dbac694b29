"""The identity of a process, as a text by which another process can prove that it has ended.

A process id alone proves nothing: the system uses it again, and in another container it means another
process. So the identity also holds the start time of the process, and the boot of the machine with the
namespace of process ids. A process counts as alive unless its end is proved. Only Linux gives all of this; on
other systems no process is ever called gone.
"""

import os
import socket
from hashlib import sha256
from pathlib import Path

from holdfast.core.ids import new_id

UNKNOWN = "-"
STATE, START = 0, 19
"""Positions in /proc/PID/stat, counted after the command's name."""


def process_identity() -> str:
    """PID:START:NAMESPACE of this process."""
    fields = _stat(os.getpid())
    return f"{os.getpid()}:{fields[START] if fields else UNKNOWN}:{_pid_namespace()}"


def is_gone(identity: str) -> bool:
    """Whether the process with this identity has certainly ended."""
    pid, _, rest = identity.partition(":")
    start, _, namespace = rest.partition(":")
    if (
        UNKNOWN in (start, namespace)
        or not pid.isdecimal()
        or not start.isdecimal()
        or namespace != _pid_namespace()
    ):
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False  # it belongs to another user, so it exists
    fields = _stat(int(pid))
    if not fields:
        return False  # its status may not be read
    return fields[START] != start or (fields[STATE] in ("Z", "X") and _threads(int(pid)) <= 1)


def is_alive(identity: str) -> bool:
    """Whether the process seems to live on this machine. Where no start time is known, the id decides."""
    pid, _, rest = identity.partition(":")
    if rest.partition(":")[2] != _pid_namespace() or not pid.isdecimal() or is_gone(identity):
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # it belongs to another user
    return True


def holder_name() -> str:
    """A new name for a holder of a lease in this process: HOST:PID:START:NAMESPACE:ID."""
    return f"{socket.gethostname()}:{process_identity()}:{new_id()}"


def is_provably_gone(holder: str) -> bool:
    """Whether the process of this holder ran on this machine and has certainly ended."""
    machine, _, rest = holder.partition(":")
    return machine == socket.gethostname() and is_gone(rest.rpartition(":")[0])


def is_alive_here(holder: str) -> bool:
    """Whether the process of this holder runs on this machine."""
    machine, _, rest = holder.partition(":")
    return machine == socket.gethostname() and is_alive(rest.rpartition(":")[0])


def _stat(pid: int) -> list[str]:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return []
    # The command's name is in parentheses and may contain any character.
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > START else []


def _threads(pid: int) -> int:
    """The number of threads.

    A main thread that has ended looks like a dead process while others still run.
    """
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0


def _pid_namespace() -> str:
    """A digest of the boot of the kernel and of its namespace of process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").readlink()
    except OSError:
        return UNKNOWN
    return sha256(f"{boot} {space}".encode()).hexdigest()[:12]
