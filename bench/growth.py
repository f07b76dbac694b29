"""What a server keeps of chats that are over: its memory after thousands of them, beside the first thousand.

`python -m bench.growth [CHATS]` measures this alone, without memory and with the default one.
"""

import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.rounds import FULL, QUICK, Scale
from bench.table import Row
from bench.web import holdfast_web, load, paced_model
from bench.web_load import TOKEN

CHATS = 4_000
WARM = 1_000
"""After so many, nothing may grow any more."""
WAVE = 50
FLAT = 1.15
PATIENCE = 300.0
MEMORY = {"without memory": "", "with the default memory": "local"}


def growth_rows(folder: Path, scale: Scale, chats: int = CHATS) -> Iterator[Row]:
    warm, last = (WAVE, 2 * WAVE) if scale is QUICK else (WARM, chats)
    with paced_model(0) as model:
        for name, providers in MEMORY.items():
            with holdfast_web(folder / f"growth-{providers or 'none'}", model, providers) as server:
                sizes: dict[int, float] = {}
                for over in range(WAVE, last + 1, WAVE):
                    load("v1", server.port, WAVE)
                    if over % warm == 0:
                        await_memory(server.port)
                        sizes[over] = server.memory() / 1024
                        say(f"{name}: {sizes[over]:.0f} MB after {over:,} chats")
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as scratch:
        wanted = int(sys.argv[1]) if len(sys.argv) > 1 else CHATS
        for row in growth_rows(Path(scratch), FULL, wanted):
            print("  ".join(cell for cell in row.cells() if cell), flush=True)
