"""The evaluation of tool tasks: a model that does them is counted, and profiles are measured."""

import asyncio

from bench.evaluate import measured_tokens, summary, try_task
from bench.tool_tasks import TASKS
from holdfast.agent import Limits
from holdfast.testing import Call, ScriptedModel


def test_a_model_that_does_a_task_has_solved_it_and_another_has_not() -> None:
    by_name = {task.name: task for task in TASKS}
    able = ScriptedModel([Call("read_file", {"path": "notes.txt"}), "The code word is Pelican."])
    solved = asyncio.run(try_task(able, by_name["read"], "small", Limits()))
    lazy = asyncio.run(try_task(ScriptedModel(["Done!"]), by_name["write"], "all", Limits()))
    assert (solved.solved, solved.steps, lazy.solved, lazy.note) == (True, 2, False, "Done!")
    assert "| small   | 1 of 1 |" in summary([solved, lazy])
    assert len(by_name) == 20


def test_a_small_profile_takes_a_fraction_of_the_tokens() -> None:
    rows = [line.split("|") for line in asyncio.run(measured_tokens()).splitlines()[2:]]
    together = {row[1].strip(): int(row[5]) for row in rows}
    assert together["small"] < 650
    assert together["standard"] < 2_400
    assert together["all"] < 4_000
