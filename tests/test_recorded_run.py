"""The recorded run, over real HTTP: what it must have gone through, and what it must leave behind."""

import asyncio
from pathlib import Path

import pytest

from holdfast.core.events import (
    CompactionFinished,
    DelegateFinished,
    ModelRetrying,
    SessionRotated,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnCompleted,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.sessions import SessionDB
from tools.recorded_run import Record, leftovers, scenario

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recorded")


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    async def run() -> Record:
        async with asyncio.timeout(60):
            return await scenario(folder, asyncio.get_running_loop().time)

    return asyncio.run(run())


def test_parallel_tools_begin_before_either_ends(record: Record) -> None:
    kinds = [type(event) for _, event in record.events]
    first = kinds.index(ToolStarted)
    assert kinds[first + 1] is ToolStarted
    results = [event for event in record.of(ToolFinished) if isinstance(event, ToolFinished)]
    assert [event.ok for event in results[:2]] == [True, True]


def test_a_rate_limit_is_waited_out_as_the_server_asked(record: Record) -> None:
    busy = record.of(ModelRetrying)[0]
    assert isinstance(busy, ModelRetrying)
    assert "429" in busy.problem
    assert busy.delay >= 0.2


def test_a_broken_stream_keeps_its_text_on_record_and_is_asked_again(record: Record, folder: Path) -> None:
    broken = record.of(ModelRetrying)[1]
    assert isinstance(broken, ModelRetrying)
    assert broken.partial
    with SessionDB(folder / "holdfast.db") as db:
        texts = [str(message.get("content")) for message in db.get_messages("record")]
    assert "This answer will bre" in texts
    assert any(text.startswith("This answer is whole.") for text in texts)


def test_subagents_answer_in_sessions_of_their_own(record: Record, folder: Path) -> None:
    assert [event.ok for event in record.of(DelegateFinished) if isinstance(event, DelegateFinished)] == [
        True,
        True,
    ]
    with SessionDB(folder / "holdfast.db") as db:
        lineage = db.sessions.lineage("record")
        children = {child for session in lineage for child in db.children(session)}
    assert len(children - set(lineage)) == 2


def test_the_conversation_was_compacted_into_one_child(record: Record, folder: Path) -> None:
    assert len(record.of(SessionRotated)) == 1
    compaction = record.of(CompactionFinished)[-1]
    assert isinstance(compaction, CompactionFinished)
    assert compaction.tokens_after < compaction.tokens_before / 2
    with SessionDB(folder / "holdfast.db") as db:
        assert len(db.sessions.lineage("record")) == 2


@pytest.mark.clause("I2", "I6")
def test_the_interrupted_command_leaves_nothing_behind_and_its_message_runs_next(record: Record) -> None:
    assert len(record.of(TurnInterrupted)) == 1
    assert leftovers() == []
    started = [event.text for event in record.of(TurnStarted) if isinstance(event, TurnStarted)]
    assert started[-2:] == ["Take your time.", "No, the short answer."]
    assert isinstance(record.events[-1][1], TurnCompleted)
    said = "".join(event.text for event in record.of(TextDelta) if isinstance(event, TextDelta))
    assert said.endswith("here is the short answer.")
