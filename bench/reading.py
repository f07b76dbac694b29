"""Reads at full size: loading a long session, searching, and the size of the file."""

from collections.abc import Callable, Iterator
from functools import partial

from bench.appending import Bout
from bench.rounds import compare, take_turns
from bench.stores import Size
from bench.table import Row, number, row
from bench.texts import VOCABULARY


def load_rows(bout: Bout) -> Iterator[Row]:
    """A whole session, as a turn needs it."""
    session = bout.first_session
    found = {store.load(session) for store in bout.stores}
    if found != {bout.scale.session}:
        raise AssertionError(f"the stores hold {found} messages of {bout.scale.session}")
    samples = take_turns(
        {
            "control": partial(bout.control.load, session),
            "holdfast": partial(bout.holdfast.load, session),
        },
        rounds=bout.scale.rounds,
    )
    cpu = [[each.cpu for each in samples[name]] for name in ("control", "holdfast")]
    wall = [[each.wall for each in samples[name]] for name in ("control", "holdfast")]
    what = f"load {bout.scale.session:,} messages"
    yield row(f"{what}, CPU", "ms", compare(*cpu), at_most=1.5)
    yield row(f"{what}, wall", "ms", compare(*wall))


def search_rows(bout: Bout) -> Iterator[Row]:
    words = bout.texts.words
    queries = {
        "rare word": words[VOCABULARY * 3 // 4],
        "common word": words[50],
        "word in almost every message": words[0],
        "two words": f"{words[50]} {words[300]}",
        "phrase": f'"{words[1]} {words[0]}"',
    }
    for kind, query in queries.items():
        hits = {store.search(query) for store in bout.stores}
        if len(hits) != 1:
            raise AssertionError(f"the stores disagree about {query!r}: {hits}")
        runs: dict[str, Callable[[], object]] = {
            "control": partial(bout.control.search, query),
            "holdfast": partial(bout.holdfast.search, query),
        }
        samples = take_turns(runs, rounds=max(2, bout.scale.rounds // 2))
        wall = [[each.wall for each in samples[name]] for name in ("control", "holdfast")]
        yield row(f"search {bout.filled:,} messages, {kind}", "ms", compare(*wall))


def size_rows(control: Size, holdfast: Size) -> Iterator[Row]:
    """Bytes stored per byte of text."""
    theirs, ours = control.file / control.text, holdfast.file / holdfast.text
    yield Row(
        "bytes stored per byte of text",
        number(theirs),
        number(ours),
        f"{ours / theirs:.2f}",
        goal="Holdfast's ≤ 2",
        met=ours <= 2,
    )
    theirs, ours = control.packed / control.text, holdfast.packed / holdfast.text
    yield Row("the same after VACUUM", number(theirs), number(ours), f"{ours / theirs:.2f}")
