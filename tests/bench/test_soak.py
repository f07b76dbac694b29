"""The long run in short: what `make soak` does to real servers for a quarter of an hour, for some seconds."""

import asyncio
from pathlib import Path

import pytest

from bench.soak.__main__ import Plan, is_sound, run, table

DEADLINE = 400.0


@pytest.mark.slow
@pytest.mark.clause("I7", "I1", "D1")
@pytest.mark.timeout(DEADLINE + 60)
def test_servers_that_are_killed_and_paused_run_all_that_they_accepted_by_themselves(tmp_path: Path) -> None:
    async def scenario() -> None:
        found = await run(("sqlite", "postgres"), tmp_path, Plan(kills=4, pauses=1, seconds=9.0, seed=7))
        assert all(map(is_sound, found.values())), f"\n{table(found)}"

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
