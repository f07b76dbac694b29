"""The torture of nodes in short: each kind of fault once; `make soak` does it 500 times."""

import asyncio
import os
from pathlib import Path

import pytest

from bench.node_torture.__main__ import NODES, is_sound, reason_to_skip, table, torture
from bench.node_torture.faults import WEIGHTS, plan

SEED = 2
NEEDED = "REQUIRE_NAMESPACES"
DEADLINE = 400.0


def test_a_plan_is_repeated_by_its_seed_and_begins_with_each_kind_of_fault() -> None:
    faults = plan(40, len(NODES), SEED)
    assert plan(40, len(NODES), SEED) == faults
    assert plan(40, len(NODES), SEED + 1) != faults
    assert {fault.kind for fault in faults[: len(WEIGHTS)]} == WEIGHTS.keys()


@pytest.mark.slow
@pytest.mark.clause("N1", "N2", "I7")
@pytest.mark.timeout(DEADLINE + 60)
def test_nodes_that_are_killed_paused_and_cut_off_lose_nothing_and_write_nothing_without_their_lease(
    tmp_path: Path,
) -> None:
    if reason := reason_to_skip():
        if os.environ.get(NEEDED):
            pytest.fail(f"{reason} ({NEEDED} is set, so this is a failure)")
        pytest.skip(reason)
    work = torture(tmp_path, plan(len(WEIGHTS), len(NODES), SEED), SEED)
    found, words = asyncio.run(asyncio.wait_for(work, DEADLINE))
    assert is_sound(found), "\n".join([table(found), *words])
