"""One reading of the project's files for all agents that begin at once."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agent.prompt import Prompt
from holdfast.agent.system_text_loader import SystemTextLoader
from holdfast.process import DaemonPool
from tests.agent.agent_fixtures import DEADLINE


@pytest.fixture
def pool() -> Iterator[DaemonPool]:
    pool = DaemonPool("work", workers=1, backlog=100)
    yield pool
    assert pool.close(DEADLINE) == []


def test_who_asks_at_once_shares_a_reading_and_who_comes_later_reads_anew(
    pool: DaemonPool, tmp_path: Path
) -> None:
    async def scenario() -> None:
        texts, prompt = SystemTextLoader(pool), Prompt(workspace=tmp_path)
        (tmp_path / "AGENTS.md").write_text("be brief")
        answers = await asyncio.gather(*(texts.of(prompt) for _ in range(20)))
        assert pool.stats().completed == 1
        assert len(set(answers)) == 1
        assert "be brief" in answers[0]
        (tmp_path / "AGENTS.md").write_text("be long")
        assert "be long" in await texts.of(prompt)
        assert await texts.of(Prompt(instructions="sing", workspace=tmp_path)) != answers[0]

    asyncio.run(scenario())


def test_who_stops_waiting_stops_nobody_else(pool: DaemonPool, tmp_path: Path) -> None:
    async def scenario() -> None:
        texts, prompt = SystemTextLoader(pool), Prompt(workspace=tmp_path)
        gate = threading.Event()
        busy = pool.submit(gate.wait, DEADLINE)
        first = asyncio.create_task(texts.of(prompt))
        second = asyncio.create_task(texts.of(prompt))
        await asyncio.sleep(0)  # noqa: TID251 - both wait
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        gate.set()
        assert "workspace" in await second
        assert busy.result(DEADLINE)

    asyncio.run(scenario())


def test_a_reading_that_fails_fails_for_all_and_is_tried_anew(
    pool: DaemonPool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        texts, prompt = SystemTextLoader(pool), Prompt(workspace=tmp_path)
        with monkeypatch.context() as broken:
            broken.setattr("holdfast.agent.prompt._read", lambda *_: 1 / 0)
            failures = await asyncio.gather(*(texts.of(prompt) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(each, ZeroDivisionError) for each in failures)
        assert "workspace" in await texts.of(prompt)

    asyncio.run(scenario())
