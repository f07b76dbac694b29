"""What a server keeps of chats that are over: its memory after thousands of them, beside the first thousand.

python -m bench.growth [CHATS]              without memory, and with the default one
python -m bench.growth 10000 --write docs   and write docs/soak.md with its curves, as `make bench-soak` does
"""

import argparse
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.curves import Curve, picture
from bench.rounds import FULL, QUICK, Scale
from bench.table import Row
from bench.web import Server, holdfast_web, load, memory_kib, paced_model
from bench.web_load import TOKEN

CHATS = 4_000
WARM = 1_000
"""After so many, nothing may grow any more."""
WAVE = 50
FLAT = 1.15
PATIENCE = 300.0
MEMORY = {"without memory": "", "with the default memory": "local"}
DRAWN = {
    "memory": "memory, MB",
    "worker": "worker, MB",
    "threads": "threads",
    "handles": "open files",
    "files": "on disk, MB",
}
"""The curves, and what they are called."""

PAGE = """# A server through {chats:,} turns

`make bench-soak` measures anew and writes this page; don't edit it. Each chat is new and has one turn; {wave}
come at once. A look is taken when nothing is owed to memory any more. Bytes on disk grow, since every chat is
kept; the rest should stay as it is. The worker is the process that recalls and makes vectors; threads and
open files are those of the serving process.

![With the default memory](soak-local.svg)

![Without memory](soak-none.svg)

{tables}

{facts}
"""


@dataclass(frozen=True, slots=True)
class Look:
    """A server after so many chats. Sizes are in MB; the worker is memory's, 0 while it does not run."""

    server: str
    chats: int
    memory: float
    worker: float
    threads: int
    handles: int
    files: float


def look(name: str, chats: int, server: Server, home: Path) -> Look:
    worker = server.worker()
    process = Path(f"/proc/{server.pid}")
    return Look(
        name,
        chats,
        server.memory() / 1024,
        memory_kib(worker, "Rss") / 1024 if worker is not None else 0.0,
        sum(1 for _ in (process / "task").iterdir()),
        sum(1 for _ in (process / "fd").iterdir()),
        sum(file.stat().st_size for file in home.rglob("*") if file.is_file()) / 1024 / 1024,
    )


def growth_rows(
    folder: Path, scale: Scale, chats: int = CHATS, looks: list[Look] | None = None
) -> Iterator[Row]:
    warm, last = (WAVE, 2 * WAVE) if scale is QUICK else (WARM, chats)
    with paced_model(0) as model:
        for name, providers in MEMORY.items():
            home = folder / f"growth-{providers or 'none'}"
            with holdfast_web(home, model, providers) as server:
                sizes: dict[int, float] = {}
                for over in range(WAVE, last + 1, WAVE):
                    load("api", server.port, WAVE)
                    if over % warm == 0:
                        await_memory(server.port)
                        seen = look(name, over, server, home)
                        sizes[over] = seen.memory
                        say(str(seen))
                        if looks is not None:
                            looks.append(seen)
            yield Row(
                f"a server's memory after {last:,} chats that are over, beside {warm:,}, {name}",
                f"{sizes[warm]:.0f} MB",
                f"{sizes[last]:.0f} MB",
                f"{sizes[last] / sizes[warm]:.2f}",
                goal=f"≤ {FLAT}",
                met=sizes[last] <= sizes[warm] * FLAT,
            )


def await_memory(port: int) -> None:
    """Wait until nothing is owed to memory: what is still to be remembered is not over."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    deadline = time.monotonic() + PATIENCE
    owed = True
    while owed and time.monotonic() < deadline:
        time.sleep(1)
        with urllib.request.urlopen(request) as answer:  # noqa: S310 - loopback
            lines = answer.read().decode().splitlines()
        owed = any(line.startswith("holdfast_memory_owed{") and not line.endswith(" 0.0") for line in lines)


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def write_page(looks: Sequence[Look], folder: Path, facts: str) -> None:
    """`soak.md` with every look, and one picture for each server."""
    tables = []
    for name, providers in MEMORY.items():
        mine = [each for each in looks if each.server == name]
        curves = [
            Curve(said, [(each.chats, getattr(each, field)) for each in mine])
            for field, said in DRAWN.items()
            if any(getattr(each, field) for each in mine)
        ]
        drawn = picture(f"A server, {name}", "MB or count", curves, "chats")
        (folder / f"soak-{providers or 'none'}.svg").write_text(drawn, encoding="utf-8")
        tables += [f"| {name}: turns | {' | '.join(DRAWN.values())} |", "|---" * (1 + len(DRAWN)) + "|"]
        tables += [
            f"| {each.chats:,} | {each.memory:.0f} | {each.worker:.0f} | {each.threads} | {each.handles} "
            f"| {each.files:.1f} |"
            for each in mine
        ]
        tables.append("")
    page = PAGE.format(
        chats=max(each.chats for each in looks), wave=WAVE, tables="\n".join(tables).rstrip(), facts=facts
    )
    (folder / "soak.md").write_text(page, encoding="utf-8")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("chats", type=int, nargs="?", default=CHATS, help="chats for each server")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write the page and its pictures")
    chosen = parser.parse_args(arguments)
    looks = list[Look]()
    begun, rows = time.monotonic(), list[Row]()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as scratch:
        for row in growth_rows(Path(scratch), FULL, chosen.chats, looks):
            print("  ".join(cell for cell in row.cells() if cell), flush=True)
            rows.append(row)
    if chosen.write is not None:
        minutes = (time.monotonic() - begun) / 60
        load = f"Load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the end"
        write_page(looks, chosen.write, f"{load}, after {minutes:.0f} minutes.")
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
