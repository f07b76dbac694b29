"""Sizes in bytes, as people write and read them: `200MB`. Units are decimal, as disks are sold."""

import re

UNITS = ("B", "kB", "MB", "GB", "TB")
STEP = 1000
WRITTEN = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([kmgt]?)b?", flags=re.IGNORECASE)


def size_text(size: int) -> str:
    """A number of bytes for people: `1.5 MB`."""
    shown, unit = float(size), 0
    while round(shown, 1) >= STEP and unit + 1 < len(UNITS):
        shown, unit = shown / STEP, unit + 1
    return f"{round(shown, 1):g} {UNITS[unit]}"


def parse_size(text: str) -> int | None:
    """The bytes of a size such as `200MB`, `1.5 GB` or `5000`; None where it is none."""
    found = WRITTEN.fullmatch(text.strip())
    return None if found is None else int(float(found[1]) * STEP ** "bkmgt".index(found[2].lower() or "b"))
