"""`python -m bench.recall`: does memory find what it was told? Evidence recall, and time at 100,000 turns.

python -m bench.recall                 the conversations in ../shared/data
python -m bench.recall --data FOLDER   others of the same shape
python -m bench.recall --turns 0       without the latency
python -m bench.recall --write PAGE    and write the tables into a page, as `make bench-recall` does

A conversation is handed over turn by turn, as the lanes do, and then asked its questions. Recall at k: the
share of a question's evidence among the first k turns found. The data are measured, never kept here.
"""

import argparse
import json
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any

from bench.hermes_facts import HermesFacts, is_here
from bench.made_chats import made_chats
from bench.recall_latency import latency_lines
from holdfast.core.clock import SystemClock
from holdfast.memory.contract import CompletedTurn
from holdfast.providers.holographic import HolographicMemory
from holdfast.providers.holographic.facts import MAX_FACT_LENGTH
from holdfast.providers.local import LocalMemory, MiniLM
from holdfast.providers.local.embedding import missing_packages
from holdfast.providers.local.words import query_words, quoted
from tools.hermes_env import VERSION

DATA = Path(__file__).resolve().parent.parent.parent / "shared" / "data"
DEPTHS = (5, 10, 20)
MADE_CHATS = 16
MARK = "<!-- Written by `make bench-recall`. -->"
CATEGORIES = {0: "all", 1: "1 several turns", 2: "2 time", 3: "3 inference", 4: "4 one turn"}
Finder = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Answered:
    """One question: its category, its recall at each depth, and how long it took."""

    category: int
    recall: tuple[float, ...]
    milliseconds: float


def spoken_at(date: str) -> float:
    """Seconds since the epoch for "1:56 pm on 8 May, 2023"."""
    return datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC).timestamp()


def handed_over(conversation: dict[str, Any]) -> Iterator[CompletedTurn]:
    """Each utterance as a completed turn with no answer: the unit that the evidence names."""
    for turn in conversation["turns"]:
        session = f"{conversation['name']}/{turn['session']}"
        key = f"{conversation['name']}/{turn['id']}"
        yield CompletedTurn(key, session, turn["id"], turn["text"], "", [], spoken_at(turn["date"]))


def plain_bm25(conversation: dict[str, Any]) -> tuple[Finder, Callable[[], None]]:
    """The control: FTS5 as anybody would use it, one turn a document, stop words dropped, OR."""
    control = sqlite3.connect(":memory:")
    control.execute(
        "create virtual table turns using fts5 (id unindexed, text, tokenize = 'porter unicode61')"
    )
    rows = [(turn["id"], turn["text"]) for turn in conversation["turns"]]
    control.executemany("insert into turns (id, text) values (?, ?)", rows)

    def find(question: str) -> list[str]:
        match = " or ".join(quoted(word) for word in query_words(question)).replace(" or ", " OR ")
        found = control.execute(
            "select id from turns where turns match ? order by rank limit ?", (match, max(DEPTHS))
        )
        return [row[0] for row in found]

    return find, control.close


def finder(memory: LocalMemory, way: str) -> Finder:
    def find(question: str) -> list[str]:
        found = memory.search(question, 2 * max(DEPTHS), mode=way)  # type: ignore[arg-type]
        return list(dict.fromkeys(each.turn_id for each in found if each.turn_id is not None))

    return find


def fact_finders(
    conversation: dict[str, Any], folder: Path
) -> Iterator[tuple[str, Finder, Callable[[], None]]]:
    """The holographic memory with each utterance as a fact, and with the facts that its rules find.

    Beside it the one of hermes-agent, if `make bench` has installed it, with each utterance as a fact.
    """
    if is_here():
        yield _hermes_finder(conversation, folder)
    whole = HolographicMemory(folder / "utterances.db", clock=SystemClock())
    said = {whole.add(turn["text"][:MAX_FACT_LENGTH]): turn["id"] for turn in conversation["turns"]}

    def find_utterance(question: str) -> list[str]:
        return [said[fact.id] for fact in whole.search(question, max(DEPTHS))]

    yield "holographic, each utterance a fact", find_utterance, whole.shutdown
    ruled = HolographicMemory(folder / "rules.db", clock=SystemClock())
    ruled.sync_turns(list(handed_over(conversation)))

    def find_by_facts(question: str) -> list[str]:
        found = ruled.search(question, 2 * max(DEPTHS))
        turns = ruled.turns_of(found)
        return list(dict.fromkeys(turn for fact in found for turn in turns[fact.id]))

    yield "holographic, facts found by rules", find_by_facts, ruled.shutdown


def _hermes_finder(conversation: dict[str, Any], folder: Path) -> tuple[str, Finder, Callable[[], None]]:
    hermes = HermesFacts(folder / "hermes.db")
    texts = {turn["text"]: turn["id"] for turn in conversation["turns"]}
    hermes.fill(list(texts))
    # Its ids count the facts in the order in which they came.
    ids = list(texts.values())

    def find(question: str) -> list[str]:
        return [ids[fact_id - 1] for fact_id in hermes.search(question, max(DEPTHS))]

    return f"hermes-agent {VERSION}, each utterance a fact", find, hermes.close


def asked(conversation: dict[str, Any], find: Finder) -> Iterator[Answered]:
    for question in conversation["questions"]:
        begun = time.perf_counter()
        found = find(question["question"])
        taken = (time.perf_counter() - begun) * 1000
        evidence = set(question["evidence"])
        shares = tuple(len(evidence.intersection(found[:depth])) / len(evidence) for depth in DEPTHS)
        yield Answered(question["category"], shares, taken)


def measure(conversations: Sequence[dict[str, Any]]) -> dict[str, list[Answered]]:
    """Every system over every conversation, each conversation in a memory of its own."""
    results: dict[str, list[Answered]] = {}
    ways = {"full text alone": "text"}
    if not missing_packages():
        ways |= {"embeddings alone": "vectors", "hybrid": "hybrid"}
    for conversation in conversations:
        say(f"{conversation['name']}: {len(conversation['turns'])} turns")
        find, close = plain_bm25(conversation)
        results.setdefault("plain BM25 (control)", []).extend(asked(conversation, find))
        close()
        with tempfile.TemporaryDirectory(prefix="holdfast-recall-") as folder:
            # With the model in this process, so that all vectors are there before the first question.
            embedder = None if missing_packages() else MiniLM()
            memory = LocalMemory(Path(folder) / "memory.db", clock=SystemClock(), zone=UTC, embedder=embedder)
            turns = list(handed_over(conversation))
            for begin in range(0, len(turns), 50):
                memory.sync_turns(turns[begin : begin + 50])
            memory.initialize("")
            for name, way in ways.items():
                results.setdefault(name, []).extend(asked(conversation, finder(memory, way)))
            memory.shutdown()
            if find_spec("numpy"):
                for name, find, close in fact_finders(conversation, Path(folder)):
                    results.setdefault(name, []).extend(asked(conversation, find))
                    close()
    return results


def recall_lines(results: dict[str, list[Answered]]) -> Iterator[str]:
    yield "| system | questions | R@5 | R@10 | R@20 | ms/query |"
    yield "|---|---|---|---|---|---|"
    for category, label in CATEGORIES.items():
        for system, answers in results.items():
            chosen = [each for each in answers if category in (0, each.category)]
            if chosen:
                shares = " | ".join(
                    f"{100 * mean(each.recall[depth] for each in chosen):.1f}" for depth in range(len(DEPTHS))
                )
                taken = mean(each.milliseconds for each in chosen)
                yield f"| {system}, {label} | {len(chosen)} | {shares} | {taken:.1f} |"


def idea_tables(conversations: Sequence[dict[str, Any]], made_up: int) -> Iterator[str]:
    """What each idea for better recall gains, on these conversations and on made-up chats."""
    from bench.recall_ideas import idea_lines
    from bench.recall_noise import noise_lines
    from bench.recall_talks import EachOnce, Talk

    embed = EachOnce(MiniLM().embed)
    given, made = (
        [Talk(raw, embed, spoken_at) for raw in chats] for chats in (conversations, made_chats(made_up))
    )
    say("measuring ideas")
    yield from idea_lines(given, made)
    say("measuring noise")
    yield ""
    yield from noise_lines((given, made))


def say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def page(path: Path, measured: Sequence[str]) -> str:
    """The page with what was measured in place of what stands below its mark."""
    above, mark, _ = path.read_text(encoding="utf-8").partition(MARK)
    return f"{above}{mark}\n\n" + "\n".join(measured) + "\n"


def tables(data: Path, turns: int, made_up: int) -> Iterator[str]:
    """All that is measured."""
    if missing_packages():
        yield f"Embeddings were skipped: {', '.join(missing_packages())} not installed (extra: embeddings)."
        yield ""
    sources = sorted(data.glob("*.json")) if data.is_dir() else []
    conversations = [json.loads(source.read_text(encoding="utf-8")) for source in sources]
    if conversations:
        yield from recall_lines(measure(conversations))
    else:
        yield f"Evidence recall was skipped: {data} has no conversations."
    if conversations and not missing_packages():
        yield ""
        yield from idea_tables(conversations, made_up)
    if turns:
        yield ""
        yield from latency_lines(turns, say)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.recall", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="a folder of conversations")
    parser.add_argument("--turns", type=int, default=100_000, help="turns for the latency; 0 leaves it out")
    parser.add_argument("--chats", type=int, default=MADE_CHATS, help="made-up chats to try ideas on")
    parser.add_argument("--write", type=Path, help="a page of the docs to write the tables into")
    chosen = parser.parse_args(arguments)
    measured = list(tables(chosen.data, chosen.turns, chosen.chats))
    print("\n".join(measured))
    if chosen.write:
        chosen.write.write_text(page(chosen.write, measured), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
