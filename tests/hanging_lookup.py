"""A name that the network never answers for, in programs that tests start."""

from pathlib import Path

ADDRESS = "http://hang.example/v1"
PATCH = """
import os, pathlib, socket, threading

found = socket.getaddrinfo

def getaddrinfo(host, *arguments, **named):
    if host in ("hang.example", b"hang.example"):
        pathlib.Path(os.environ["LOOKED_UP"]).touch()
        threading.Event().wait()
    return found(host, *arguments, **named)

socket.getaddrinfo = getaddrinfo
"""


def hanging_lookup(folder: Path) -> tuple[dict[str, str], Path]:
    """The environment in which a lookup of `ADDRESS` hangs, and the file that is there once one does."""
    patch = folder / "patch"
    patch.mkdir()
    (patch / "sitecustomize.py").write_text(PATCH, encoding="utf-8")
    begun = folder / "looked-up"
    return {"PYTHONPATH": str(patch), "LOOKED_UP": str(begun)}, begun
