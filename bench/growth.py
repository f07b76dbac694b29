"""What a server keeps of chats that are over: its memory after thousands of them, beside the first thousand.

`python -m bench.growth [CHATS [FOLDER]]` measures this alone, without memory and with the default one, and
draws memory, threads, open files and bytes on disk into the folder (`soak.csv`, `soak-0.svg`, `soak-1.svg`).
"""

import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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
                    load("v1", server.port, WAVE)
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


def write_curves(looks: Sequence[Look], folder: Path) -> None:
    """`soak.csv` with every look, and one picture for each server."""
    fields = list(asdict(looks[0]))
    lines = [",".join(fields), *(",".join(f"{value}" for value in asdict(each).values()) for each in looks)]
    (folder / "soak.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for number, name in enumerate(MEMORY):
        mine = [each for each in looks if each.server == name]
        curves = [
            Curve(field, [(each.chats, getattr(each, field)) for each in mine])
            for field in ("memory", "threads", "handles", "files")
        ]
        drawn = picture(f"A server, {name}", "MB or count", curves, "chats")
        (folder / f"soak-{number}.svg").write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else CHATS
    seen = list[Look]()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as scratch:
        for row in growth_rows(Path(scratch), FULL, wanted, seen):
            print("  ".join(cell for cell in row.cells() if cell), flush=True)
    if len(sys.argv) > 2:
        write_curves(seen, Path(sys.argv[2]))
