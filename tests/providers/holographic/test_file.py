"""The file of the facts: found by its name, shared by processes, without a trace of what was forgotten."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.errors import NotADatabase, ProviderInvalid
from holdfast.providers.loader import load_providers
from holdfast.testing import FakeClock
from tests.providers.holographic.conftest import OpenMemory
from tests.providers.holographic.tool_calls import ask, contents
from tests.providers.local.completed_turns import turn


def bytes_on_disk(path: Path) -> bytes:
    """Everything in the database and the files beside it, in lower case."""
    return b"".join(each.read_bytes() for each in path.parent.glob(f"{path.name}*")).lower()


def test_it_is_found_by_its_name(tmp_path: Path) -> None:
    loaded = load_providers(["holographic"], folder=tmp_path, clock=FakeClock())
    assert [each.gated.name for each in loaded.ready] == ["holographic"]
    assert list(tmp_path.iterdir()) == [], "nothing is opened before it is used"


def test_without_numpy_it_is_left_out_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    [problem] = load_providers(["holographic"], folder=tmp_path, clock=FakeClock()).problems
    assert isinstance(problem, ProviderInvalid)
    assert "holdfast-agent[holographic]" in str(problem)


def test_the_local_memorys_file_is_refused(path: Path, open_memory: OpenMemory) -> None:
    from holdfast.providers.local import LocalMemory

    local = LocalMemory(path, clock=FakeClock(), embedder=None)
    local.save_note("not facts")
    local.shutdown()
    with pytest.raises(NotADatabase):
        open_memory().initialize("s1")


@pytest.mark.parametrize("way", ["remove", "update"])
def test_a_forgotten_fact_leaves_no_trace_in_the_file(path: Path, open_memory: OpenMemory, way: str) -> None:
    memory = open_memory()
    for number in range(50):
        memory.add(f"Ann owns house number {number}")
    fact = memory.add("Ann keeps a Xylophagous Quokka")
    assert b"quokka" in bytes_on_disk(path)
    ask(memory, way, fact_id=fact, **({"content": "Ann keeps a pet"} if way == "update" else {}))
    assert b"quokka" not in bytes_on_disk(path)
    assert b"xylophag" not in bytes_on_disk(path)


def test_another_memory_on_the_file_sees_what_was_added_changed_and_removed(open_memory: OpenMemory) -> None:
    first, second = open_memory(), open_memory()
    fact = first.add("Ann lives in Bonn")
    assert contents(ask(second, "probe", entity="Ann")) == ["Ann lives in Bonn"]
    ask(first, "update", fact_id=fact, content="Ann lives in Rome")
    assert contents(ask(second, "probe", entity="Rome")) == ["Ann lives in Rome"]
    first.forget(fact)
    assert ask(second, "probe", entity="Ann")["unknown"] == ["Ann"]
    first.add("Zoe sings")
    assert contents(ask(second, "probe", entity="Zoe")) == ["Zoe sings"]


WRITER = """
import sys
from holdfast.core.clock import SystemClock
from holdfast.providers.holographic import HolographicMemory
memory = HolographicMemory(sys.argv[1], clock=SystemClock())
for number in range(40):
    memory.add(f"{sys.argv[2]} owns house number {number}")
    memory.add(f"Shared house number {number} is red")
memory.shutdown()
"""


def test_two_processes_write_at_once_and_nothing_is_lost_or_doubled(
    checkout: Path, path: Path, open_memory: OpenMemory
) -> None:
    children = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], cwd=checkout)
        for name in ("Ann", "Zoe")
    ]
    assert [child.wait(60) for child in children] == [0, 0]
    memory = open_memory()
    assert memory.describe().facts == 120
    assert len(ask(memory, "probe", entity="Zoe", limit=50)["facts"]) == 40


def test_what_is_remembered_is_never_logged(
    open_memory: OpenMemory, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    memory = open_memory(token_budget=200)
    memory.add("Ann keeps a Xylophagous Quokka")
    memory.sync_turns([turn(1, "I keep a Xylophagous Quokka")])
    memory.prefetch("Xylophagous Quokka")
    ask(memory, "add", content="Xylophagous" * 500)
    memory.shutdown()
    assert "xylophagous" not in caplog.text.lower()
