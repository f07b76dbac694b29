"""Which processes still live, and which a command has written down."""

from pathlib import Path


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def pids(workspace: Path, count: int) -> list[int]:
    """The process numbers that a command has written down by now, when there are as many as expected."""
    lines = [each.read_text().strip() for each in workspace.glob("*.pid")]
    return [int(each) for each in lines if each] if len([each for each in lines if each]) == count else []


def carrying(tag: str) -> list[int]:
    """The processes of this machine that have a word in their command line."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            if each.name.isdecimal() and tag.encode() in (each / "cmdline").read_bytes():
                found.append(int(each.name))
        except OSError:
            continue
    return found
