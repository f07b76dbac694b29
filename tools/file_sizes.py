"""Refuse source files that have grown too long: `python -m tools.file_sizes src tests`.

A long file is a second idea in one place. The limit is a wall, not a goal: aim for 200 lines. The libraries
of the web page are as others wrote them.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tools.bootstrap import PAGE_LIBRARIES

LIMIT = 600
SUFFIXES = frozenset({".py", ".sql", ".js", ".css"})


def too_long(folders: list[Path]) -> Iterator[tuple[Path, int]]:
    """Yield each file of `folders` over the limit, with its number of lines."""
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if PAGE_LIBRARIES in path.absolute().parents:
                continue
            if path.suffix in SUFFIXES and path.is_file():
                lines = len(path.read_bytes().splitlines())
                if lines > LIMIT:
                    yield path, lines


def main(arguments: list[str]) -> int:
    refused = list(too_long([Path(argument) for argument in arguments]))
    for path, lines in refused:
        print(f"{path}: {lines} lines; the limit is {LIMIT}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
