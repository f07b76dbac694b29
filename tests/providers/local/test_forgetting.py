"""Forgetting is real: no text, no index, no vectors, in no process, and no way back in."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.providers.local import LocalMemory
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory


def bytes_on_disk(path: Path) -> bytes:
    """Everything in the database and the files beside it."""
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(f"{path.name}*")))


@pytest.mark.parametrize("kind", ["note", "turn"])
def test_a_forgotten_thing_leaves_no_trace_in_the_file(memory: LocalMemory, path: Path, kind: str) -> None:
    memory.sync_turns([turn(number, f"Ordinary talk number {number}") for number in range(50)])
    if kind == "note":
        memory.save_note("The password is Xylophagous Quokka")
    else:
        memory.sync_turns([turn(99, "The password is", "Xylophagous Quokka")])
    assert b"xylophag" in bytes_on_disk(path).lower()
    found = memory.search("xylophagous quokka")[0]
    assert memory.forget(found.id)
    assert b"xylophag" not in bytes_on_disk(path).lower()
    assert b"quokka" not in bytes_on_disk(path).lower()
    assert all("quokka" not in each.text.lower() for each in memory.search("xylophagous quokka password"))


def test_a_corrected_note_leaves_no_trace_of_its_old_text(memory: LocalMemory, path: Path) -> None:
    note = memory.save_note("Lives in Zzyzx")
    assert memory.correct_note(note, "Lives in Baker")
    assert b"zzyzx" not in bytes_on_disk(path).lower()


def test_its_vector_is_gone_from_the_file(open_memory: OpenMemory, path: Path) -> None:
    pytest.importorskip("numpy")
    from holdfast.providers.local.vectors import as_bytes, as_codes
    from tests.providers.local.hashing_embedder import HashingEmbedder

    embedder = HashingEmbedder()
    memory = open_memory(embedder)
    memory.sync_turns([turn(1, "An ordinary day")])
    note = memory.save_note("A secret of singular words")
    memory.search("warm the file of codes")
    row = embedder.embed(["A secret of singular words"])
    code, vector = as_codes(row)[0], as_bytes(row).tobytes()
    assert code in bytes_on_disk(path)
    assert vector in bytes_on_disk(path)
    memory.forget(note)
    assert code not in bytes_on_disk(path)
    assert vector not in bytes_on_disk(path)


def test_a_forgotten_turn_that_is_delivered_again_stays_forgotten(memory: LocalMemory) -> None:
    secret = turn(1, "My secret is marzipan")
    memory.sync_turns([secret])
    memory.forget(memory.search("marzipan")[0].id)
    memory.sync_turns([secret])
    assert memory.search("marzipan") == []


def test_another_memory_on_the_file_stops_finding_it(open_memory: OpenMemory, embedder: Any) -> None:  # noqa: ANN401
    first, second = open_memory(embedder), open_memory(embedder)
    note = first.save_note("Keeps bees on the roof")
    assert [found.id for found in second.search("bees roof")] == [note]
    first.forget(note)
    assert second.search("bees roof") == []
    assert second.search("bees roof", mode="vectors") == []


def test_what_stands_beside_a_forgotten_turn_is_still_found(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "I sail"), turn(2, "I dive"), turn(3, "I ski")])
    memory.forget(memory.search("dive")[0].id)
    memory.sync_turns([turn(4, "I row")])
    assert {found.text for found in memory.search("sail ski row")} == {"I sail", "I ski", "I row"}
