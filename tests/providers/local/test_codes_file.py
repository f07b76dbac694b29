"""The file of codes: only an index, made again when it is lost; forgotten things do not stay in it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("numpy")

import numpy as np

from holdfast.providers.local import LocalMemory
from holdfast.providers.local.codes_file import HEAD_BYTES
from holdfast.providers.local.vectors import as_codes
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory
from tests.providers.local.hashing_embedder import HashingEmbedder


def codes_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-codes")


def finds_topic_7(memory: LocalMemory) -> bool:
    """By its vector, which some others share."""
    return "topic7" in [found.text for found in memory.search("topic7", mode="vectors")]


@pytest.fixture
def filled(open_memory: OpenMemory) -> LocalMemory:
    memory = open_memory(HashingEmbedder())
    memory.sync_turns([turn(number, f"topic{number}", session=f"s{number}") for number in range(50)])
    assert finds_topic_7(memory)
    return memory


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(b"Dear diary, " * 5000),
        lambda file: file.write_bytes(file.read_bytes()[: HEAD_BYTES + 100]),
        lambda file: file.write_bytes(b"\x01" + file.read_bytes()[1:]),
    ],
    ids=["deleted", "emptied", "another file", "cut off", "a damaged head"],
)
def test_a_lost_or_damaged_file_is_made_again(
    filled: LocalMemory, open_memory: OpenMemory, path: Path, damage: object
) -> None:
    filled.shutdown()
    damage(codes_of(path))  # type: ignore[operator]
    again = open_memory(HashingEmbedder())
    assert finds_topic_7(again)


def test_the_file_of_another_memory_is_not_used(
    filled: LocalMemory, open_memory: OpenMemory, path: Path
) -> None:
    filled.shutdown()
    kept = codes_of(path).read_bytes()
    path.unlink()
    codes_of(path).write_bytes(kept)
    memory = open_memory(HashingEmbedder())
    memory.sync_turns([turn(1, "something else")])
    assert [found.text for found in memory.search("something", mode="vectors")] == ["something else"]
    assert codes_of(path).read_bytes() != kept


def test_only_its_owner_can_read_it(filled: LocalMemory, path: Path) -> None:
    assert codes_of(path).stat().st_mode & 0o777 == 0o600
    assert filled.describe().without_vector == 0


def test_what_a_killed_process_had_to_erase_is_erased_at_the_next_start(
    filled: LocalMemory, open_memory: OpenMemory, path: Path
) -> None:
    [code] = as_codes(HashingEmbedder().embed(["topic7"]))
    [found] = [each for each in filled.search("topic7") if each.text == "topic7"]
    filled.shutdown()
    place = slice(HEAD_BYTES + 8 * found.id, HEAD_BYTES + 8 * found.id + 8)
    assert codes_of(path).read_bytes()[place] == code
    with closing(sqlite3.connect(path)) as dying:  # the deletion is committed, and then the process is killed
        dying.execute("delete from vectors where passage_id = ?", (found.id,))
        dying.commit()
    open_memory(None).search("anything")
    assert codes_of(path).read_bytes()[place] == bytes(8)
    with closing(sqlite3.connect(path)) as looking:
        assert looking.execute("select count(*) from erased").fetchone() == (0,)


def test_vectors_of_the_first_schema_are_kept_and_found(open_memory: OpenMemory, path: Path) -> None:
    memory = open_memory(None)
    memory.sync_turns([turn(number, f"topic{number}", session=f"s{number}") for number in range(50)])
    memory.shutdown()
    embedder = HashingEmbedder()
    with closing(sqlite3.connect(path)) as old:
        _as_schema_1(old, embedder)
    again = open_memory(embedder)
    embedder.embedded.clear()
    assert finds_topic_7(again)
    assert embedder.embedded == ["topic7"], "no passage is embedded again"
    assert again.describe().without_vector == 0


def _as_schema_1(old: sqlite3.Connection, embedder: HashingEmbedder) -> None:
    """Turn a new file without vectors into one that the first version of the schema would have written."""
    old.executescript(
        "drop trigger vector_removed; drop table erased; delete from unembedded;"
        "delete from meta where key = 'store'; update meta set value = '1' where key = 'schema';"
        "create table removals (stamp integer primary key autoincrement, passage_id integer not null) strict;"
    )
    for passage_id, text in old.execute("select id, text from passages").fetchall():
        vector = embedder.embed([text])[0].astype(np.float16).tobytes()
        old.execute(
            "insert into vectors (passage_id, model, vector) values (?, ?, ?)",
            (passage_id, embedder.model, vector),
        )
    old.commit()
