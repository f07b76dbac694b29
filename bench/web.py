"""The web surface under load: N new chats at once, beside the same load straight to the model's server.

The model streams 100 tokens in 2 s, so a perfect server adds nothing. Model, server and load run in three
processes. The server has the defaults that users get, so it remembers each chat; beside it the same without
memory. `python -m bench.web` measures this alone.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from bench.rounds import FULL, QUICK, Scale
from bench.table import Row, number, render
from bench.web_load import TOKEN
from bench.web_model import NAME, SECONDS, TOKENS

CHATS = (10, 50, 200, 500)
ROUNDS = 3
"""The ways take turns, so that all of them meet the same machine."""
JUDGED = 200
LATE_SECONDS, LONGER = 0.5, 1.3
CHAT_MS, LARGEST_MB = 12, 250
QUIET_LOOKS = 4
WAYS = {"": "local", ", without memory": ""}
"""What is said of a row, and the memory providers: the default first."""
MAIN = "from holdfast.cli.main import main; main()"
PATIENCE = 60.0
TICKS = os.sysconf("SC_CLK_TCK")
IMPORTS = re.compile(r"""(?:from\s*|import\s+)["']([./][^"']+\.js)["']""")
LINKS = re.compile(r"""(?:src|href)=["']([^"':]+\.(?:js|css|svg|png|webmanifest))["']""")


@dataclass(frozen=True, slots=True)
class Seen:
    """What N chats saw."""

    first: float
    whole: float
    slowest: float
    complete: int
    began: float = 0.0
    """When the first of them began, by the clock of all processes of this machine."""
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class Server:
    """A Holdfast that serves."""

    pid: int
    port: int
    healthy: float = 0.0
    """Seconds from its start to its first sign of life."""
    other_children: tuple[int, ...] = ()
    is_parent: bool = False
    """Whether its children serve (`--workers`), and it only listens."""

    def cpu(self) -> float:
        """Of the serving process, or of all of them with their parent."""
        return sum(map(cpu_seconds, {self.pid, *self._serving()}))

    def _serving(self) -> list[int]:
        return _children(self.pid) if self.is_parent else [self.pid]

    def memory(self) -> int:
        return memory_kib(self.pid, "Rss")

    def worker(self) -> int | None:
        """The process that recalls, while it runs."""
        return next(iter(self.workers()), None)

    def workers(self) -> list[int]:
        """Those processes, one for each that serves."""
        found = [child for each in self._serving() for child in _children(each)]
        return [child for child in found if child not in self.other_children]


def _children(pid: int) -> list[int]:
    threads = Path(f"/proc/{pid}/task").iterdir()
    found = " ".join((each / "children").read_text(encoding="ascii") for each in threads)
    return [int(each) for each in found.split()]


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def memory_kib(pid: int, kind: str) -> int:
    """`Rss`, or `Pss`: what processes share is divided among them."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{kind}:")))


def web_rows(folder: Path, scale: Scale) -> Iterator[Row]:
    counts = (2,) if scale is QUICK else CHATS
    with paced_model() as model:
        for chats in counts:
            for said, providers in WAYS.items():
                # A fresh server each time: what one load leaves behind is not the next one's.
                home = folder / f"web-{chats}-{providers or 'none'}"
                with holdfast_web(home, model, providers) as server:
                    rounds = 1 if scale is QUICK else ROUNDS
                    for row in _load_rows(server, model, chats, rounds):
                        yield replace(row, what=f"{row.what}{said}")
                    if providers:
                        yield _recall_row(home / "holdfast" / "holdfast.db", chats)
                    if chats == counts[-1] and not said:
                        yield from _page_rows(server)


def _load_rows(server: Server, model: int, chats: int, rounds: int) -> Iterator[Row]:
    load("api", server.port, 1)  # what is imported at the first request is imported now
    directs, throughs, compatibles = list[Seen](), list[Seen](), list[Seen]()
    await_worker(server)
    spent, memory = 0.0, server.memory()
    worker = server.worker()
    beside = cpu_seconds(worker) if worker is not None else 0.0
    largest = [0, 0, 0]
    for _ in range(rounds):
        directs.append(load("direct", model, chats))
        before = server.cpu()
        throughs.append(load("api", server.port, chats))
        spent += server.cpu() - before
        compatibles.append(load("v1", server.port, chats))
        largest = [max(pair) for pair in zip(largest, sizes(server), strict=True)]
    direct, through, compatible = map(_together, (directs, throughs, compatibles))
    # Each round leaves its chats behind, those by /v1 too.
    cpu, grown = spent / rounds, (server.memory() - memory) / rounds / 2
    judged = chats == JUDGED
    complete = min(through.complete, compatible.complete)
    yield Row(
        f"{chats} chats at once: complete",
        f"{direct.complete}",
        f"{complete}",
        "",
        goal="all" if judged else "",
        met=complete == chats if judged else None,
    )
    for name, seen in ((", by /api", through), (", by /v1", compatible)):
        yield Row(
            f"{chats} chats at once: median time to the first token{name}",
            f"{direct.first:.2f} s",
            f"{seen.first:.2f} s",
            f"+{seen.first - direct.first:.2f} s",
            goal=f"+{LATE_SECONDS} s" if judged else "",
            met=seen.first <= direct.first + LATE_SECONDS if judged else None,
        )
        yield Row(
            f"{chats} chats at once: median time to the end{name}",
            f"{direct.whole:.2f} s",
            f"{seen.whole:.2f} s",
            f"{seen.whole / direct.whole:.2f}",
            spread=f"slowest {seen.slowest:.2f} s",
            goal=f"≤ {LONGER}" if judged else "",
            met=seen.whole <= direct.whole * LONGER if judged else None,
        )
    yield Row(
        f"{chats} chats at once: CPU of the serving process for each chat",
        "",
        f"{number(cpu / chats * 1000)} ms",
        "",
        goal=f"≤ {CHAT_MS} ms" if judged else "",
        met=cpu / chats * 1000 <= CHAT_MS if judged else None,
    )
    if worker is not None and worker == server.worker():
        vectors = (cpu_seconds(worker) - beside) / rounds / 2 / chats * 1000
        yield Row(
            f"{chats} chats at once: CPU of memory's worker for each chat", "", f"{number(vectors)} ms", ""
        )
    serving, whole, shared = (size / 1024 for size in largest)
    yield Row(
        f"{chats} chats at once: memory in all, what processes share counted once (PSS)",
        "",
        f"{shared:.0f} MB",
        "",
        spread=f"RSS {serving:.0f} MB serving, {whole:.0f} MB added up",
        goal=f"≤ {LARGEST_MB} MB" if judged else "",
        met=shared <= LARGEST_MB if judged else None,
    )
    per_token = cpu / chats / TOKENS * 1_000_000
    yield Row(f"{chats} chats at once: CPU for each token", "", f"{number(per_token)} µs", "")
    yield Row(f"{chats} chats at once: memory for each chat", "", f"{number(max(0, grown) / chats)} KiB", "")


def _recall_row(store: Path, chats: int) -> Row:
    """How the recalls of all turns went, as each turn's record says."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        kept = connection.execute("select timeline from turns where timeline is not null").fetchall()
    notes = [each.get("note", "") for (text,) in kept for each in json.loads(text).get("recalled", ())]
    by_text = sum(note.startswith("by full text") for note in notes)
    by_nothing = sum(note.startswith("nothing") for note in notes)
    whole = len(notes) - by_text - by_nothing
    said = f"{whole} whole, {by_text} by full text alone, {by_nothing} none"
    return Row(f"{chats} chats at once: recalls of all rounds", "", said, "")


def sizes(server: Server) -> tuple[int, int, int]:
    """The serving process alone, with its worker, and the same by shares, in KiB."""
    worker = server.worker()
    alone = server.memory()
    if worker is None:
        return alone, alone, memory_kib(server.pid, "Pss")
    return (
        alone,
        alone + memory_kib(worker, "Rss"),
        memory_kib(server.pid, "Pss") + memory_kib(worker, "Pss"),
    )


def await_worker(server: Server) -> None:
    """Give the workers of the first chats the time to load their models."""
    before, quiet = -1.0, 0
    while quiet < QUIET_LOOKS:
        now = sum(map(cpu_seconds, server.workers()))
        quiet, before = (quiet + 1 if now == before else 0), now
        time.sleep(0.5)


def _together(rounds: list[Seen]) -> Seen:
    """The medians of some rounds, and their worst."""
    return Seen(
        median(each.first for each in rounds),
        median(each.whole for each in rounds),
        max(each.slowest for each in rounds),
        min(each.complete for each in rounds),
    )


def _page_rows(server: Server) -> Iterator[Row]:
    yield Row("from the start of `holdfast web` to its first sign of life", "", f"{server.healthy:.2f} s", "")
    size, requests = _first_view(server.port)
    yield Row(
        "the page's first view, compressed",
        "",
        f"{size / 1000:.0f} kB",
        "",
        goal="< 300 kB",
        met=size < 300_000,
    )
    yield Row("the page's first view, files", "", f"{requests}", "", goal="≤ 15", met=requests <= 15)


def load(way: str, port: int, chats: int, at: float = 0.0) -> Seen:
    """So many chats at once; `at` is when they begin, if several clients are to begin together."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.web_load", way, str(port), str(chats), str(at)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE + chats,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    if not lines:
        raise RuntimeError(f"{way} with {chats} chats: {done.stderr[-2000:]}")
    wholes = [float(line[1]) for line in lines]
    return Seen(
        median(float(line[0]) for line in lines),
        median(wholes),
        max(wholes),
        sum(int(line[2]) >= TOKENS for line in lines),
        min(float(line[3]) for line in lines),
        max(float(line[3]) + float(line[1]) for line in lines),
    )


@contextmanager
def paced_model(seconds: float = SECONDS) -> Iterator[int]:
    """The model's server; its port."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.web_model", str(seconds)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None  # noqa: S101 - asked for above
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def environment_of(home: Path, model: int, providers: str) -> dict[str, str]:
    """The environment of a program that has nothing but this new folder and this model."""
    home.mkdir()
    return {
        **os.environ,
        "HOME": str(home),
        "XDG_DATA_HOME": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_STATE_HOME": str(home),
        "HOLDFAST_MODEL_PROVIDER": "openai",
        "HOLDFAST_MODEL_BASE_URL": f"http://127.0.0.1:{model}/v1",
        "HOLDFAST_MODEL_NAME": NAME,
        "HOLDFAST_TOOLS_WORKSPACE": str(home),
        "HOLDFAST_MEMORY_PROVIDERS": providers,
        "HOLDFAST_WEB_TOKEN": TOKEN,
    }


@contextmanager
def holdfast_web(
    home: Path, model: int, providers: str = "", store: str = "", workers: int = 1
) -> Iterator[Server]:
    """`holdfast web` with the defaults, but for its memory providers, its store and its workers."""
    environment = environment_of(home, model, providers) | ({"HOLDFAST_STORE_URL": store} if store else {})
    begun = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-c", MAIN, "web", "--port", "0", "--workers", str(workers)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - asked for above
            port = int(process.stdout.readline().partition("127.0.0.1:")[2].partition("/")[0])
            _get(port, "/healthz")
            yield Server(process.pid, port, time.perf_counter() - begun, is_parent=workers > 1)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _get(port: int, path: str) -> tuple[bytes, int]:
    """A file of the page, and how many bytes of it came over the wire."""
    import gzip

    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # noqa: S310 - loopback
        content: bytes = answer.read()
        packed = answer.headers.get("Content-Encoding") == "gzip"
    return gzip.decompress(content) if packed else content, len(content)


def _first_view(port: int) -> tuple[int, int]:
    """What a browser loads before anything is clicked: the page, and all that its files import at once."""
    wanted, seen, size = ["/"], set[str](), 0
    while wanted:
        path = wanted.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            content, length = _get(port, path)
        except urllib.error.HTTPError:
            continue
        size += length
        text = content.decode(errors="replace")
        found = LINKS.findall(text) if path == "/" else IMPORTS.findall(text) if path.endswith(".js") else []
        base = Path(path).parent
        wanted += [each if each.startswith("/") else os.path.normpath(base / each) for each in found]
    return size, len(seen)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir="/var/tmp") as name:
        rows = []
        for each in web_rows(Path(name), QUICK if "--quick" in sys.argv else FULL):
            print("  ".join(cell for cell in each.cells() if cell), file=sys.stderr, flush=True)
            rows.append(each)
    print(render(rows))
