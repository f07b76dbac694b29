"""Chat platforms under load: 200 chats at once over one account, beside the same host without a gateway.

The model streams 100 tokens in 2 s. The platform has the limits that each adapter states, and refuses what
comes faster; its people and its chats live in the gateway's own process, so their cost is counted too. One
more way is Telegram's client library against a small server. The settings are the defaults, so a message
waits 0.6 s for others of the same burst.

python -m bench.gateway                                   about ten minutes
python -m bench.gateway --write docs/chat-benchmarks.md   the same, kept as a page
python -m bench.gateway --quick                           whether it runs, not how fast
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles

from bench.gateway_load import Load, traits_of
from bench.rounds import FULL, QUICK, Scale
from bench.table import Row, number, render
from bench.web import WAYS, environment_of, paced_model

PLATFORMS = {"telegram": "telegram", "discord": "discord", "slack": "slack", "matrix": "matrix"}
WITH_LIBRARY = {"telegram, by its client library": "aiogram"}
"""What is said of a way, and its name for `bench.gateway_load`."""
CHATS, FEW = 200, 3
LATE_SECONDS = 1.0
REFUSED_SHARE = 0.01
PATIENCE = 400.0
PAGE = """# Chat platforms under load

200 people write to one account at the same moment, on a platform with the limits that its adapter states.
The model streams 100 tokens in 2 s. Each row stands twice: with memory, which is the default, and without it.
The control is the same host without a gateway or, where the row says so, the time that the platform's limit
allows at best. The people and their platform are in the measured process too, except "by its client library",
where Telegram's library speaks with a server in a process of its own. `make bench-chats` measures anew and
writes this page; don't edit it.

When more people write at once than the platform lets a bot answer, the last of them waits for the platform:
that wait is the control of "time to the first words". With three people no limit is reached, and the words
come as soon as the model says them; on Telegram a placeholder takes the first call, so they come with the
next one, a second later. "The middle 80 %" is of the 200 people. One account is served by one process.

{facts}

{table}
"""


def gateway_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    chats = 2 if scale is QUICK else CHATS
    ways = {"telegram": "telegram"} if scale is QUICK else PLATFORMS | WITH_LIBRARY
    with paced_model() as model:
        for said, providers in list(WAYS.items())[-1:] if scale is QUICK else WAYS.items():
            measured = _Measure(folder, model, providers)
            control = measured.load("host", chats)
            for name, way in ways.items():
                platform = "telegram" if way == "aiogram" else way
                for row in _many_rows(platform, measured.load(way, chats), control, chats):
                    yield _named(row, f"{name}, {chats} chats at once: ", said)
                if scale is not QUICK:
                    yield _named(_few_row(platform, measured.load(way, FEW)), f"{name}, {FEW} chats: ", said)


class _Measure:
    """Loads, each in a fresh process with a fresh folder."""

    def __init__(self, folder: Path, model: int, providers: str) -> None:
        self._folder = folder
        self._model = model
        self._providers = providers
        self._loads = 0

    def load(self, way: str, chats: int) -> Load:
        self._loads += 1
        home = self._folder / f"gateway-{self._providers or 'none'}-{self._loads}"
        done = subprocess.run(
            [sys.executable, "-m", "bench.gateway_load", way, str(chats)],
            env=environment_of(home, self._model, self._providers),
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        lines = done.stdout.splitlines()
        if not lines:
            raise RuntimeError(f"{way} with {chats} chats: {done.stderr[-2000:]}")
        return Load(**json.loads(lines[-1]))


def _many_rows(platform: str, load: Load, control: Load, chats: int) -> Iterator[Row]:
    made = sum(load.calls.values())
    yield Row(
        "answered", f"{len(control.whole)}", f"{len(load.whole)}", "", "", "all", len(load.whole) == chats
    )
    yield Row(
        "calls that the platform refused as too fast",
        "",
        f"{load.refused} of {made}",
        "",
        ", ".join(f"{count} {kind}" for kind, count in sorted(load.calls.items())),
        f"≤ {REFUSED_SHARE:.0%}",
        load.refused <= made * REFUSED_SHARE,
    )
    traits = traits_of(platform)
    # A placeholder and the edit into it, where the platform takes no key.
    needed = 2 if traits.repeat == "placeholder" else 1
    least = chats * needed / traits.account_per_second
    worst, shares = max(load.shown), quantiles(load.shown, n=10)
    yield Row(
        "time to the first words, the last chat; control: what the limit allows",
        f"{least:.1f} s",
        f"{worst:.1f} s",
        f"{worst / least:.2f}",
        f"the middle 80 % {shares[0]:.1f} to {shares[-1]:.1f} s, median {median(load.shown):.1f} s",
    )
    yield Row(
        "time to the model's first token, the last chat; control: without a gateway",
        f"{max(control.token):.2f} s",
        f"{max(load.token):.2f} s",
        f"{max(load.token) - max(control.token):+.2f} s",
    )
    yield Row(
        "CPU for each chat; control: without a gateway",
        f"{number(control.cpu / chats * 1000)} ms",
        f"{number(load.cpu / chats * 1000)} ms",
        f"{load.cpu / control.cpu:.2f}" if control.cpu else "",
    )
    if load.worker_cpu:
        yield Row(
            "CPU of memory's worker for each chat; control: without a gateway",
            f"{number(control.worker_cpu / chats * 1000)} ms",
            f"{number(load.worker_cpu / chats * 1000)} ms",
            "",
        )
    yield Row(
        "the most memory (PSS); control: without a gateway",
        f"{control.memory:.0f} MB",
        f"{load.memory:.0f} MB",
        f"{load.memory / control.memory:.2f}",
    )


def _few_row(platform: str, load: Load) -> Row:
    traits = traits_of(platform)
    # The placeholder takes one call of the chat, and the words may come a chat's least time later.
    least = traits.chat_seconds if traits.repeat == "placeholder" else 0.0
    late = max(load.late, default=0.0)
    return Row(
        "from the model's first token to the first words; control: what the limit allows",
        f"{least:.2f} s",
        f"{late:.2f} s",
        f"{late - least:+.2f} s",
        "the slowest chat",
        f"+{LATE_SECONDS:g} s",
        late <= least + LATE_SECONDS,
    )


def _named(row: Row, before: str, after: str) -> Row:
    return replace(row, what=f"{before}{row.what}{after}")


def beside(rows: Sequence[Row]) -> list[Row]:
    """The rows with memory and without it, each pair together."""
    last = list(WAYS)[-1]
    places: dict[str, int] = {}
    for each in rows:
        places.setdefault(each.what.removesuffix(last), len(places))
    return sorted(rows, key=lambda each: places[each.what.removesuffix(last)])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, to see that it runs")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the result as a page")
    parser.add_argument("--note", default="", help="a sentence for the page, such as what else ran meanwhile")
    chosen = parser.parse_args(arguments)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as name:
        rows = []
        for each in gateway_rows(Path(name), QUICK if chosen.quick else FULL):
            print("  ".join(cell for cell in each.cells() if cell), file=sys.stderr, flush=True)
            rows.append(each)
    table = render(beside(rows))
    print(table)
    if chosen.write is not None:
        version = sys.version.split()[0]
        told = f"Machine: {os.cpu_count()} cores, load {load:.1f} at the beginning, Python {version}."
        facts = f"{told} {chosen.note}".strip()
        chosen.write.write_text(PAGE.format(facts=facts, table=table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
