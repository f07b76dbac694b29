"""The evaluation of tool tasks: a model that does them is counted, and profiles are measured."""

import asyncio
from dataclasses import replace
from pathlib import Path

from bench.evaluate import measured_tokens, try_task
from bench.tool_tasks import TASKS
from bench.tried_tasks import Results, Tried, summary
from holdfast.agent import Limits
from holdfast.testing import Call, ScriptedModel


def test_a_model_that_does_a_task_has_solved_it_and_another_has_not(tmp_path: Path) -> None:
    by_name = {task.name: task for task in TASKS}
    able = ScriptedModel([Call("read_file", {"path": "notes.txt"}), "The code word is Pelican."] * 2)
    solved = asyncio.run(try_task(able, by_name["read"], "small", Limits(), tmp_path))
    same = asyncio.run(try_task(able, by_name["read"], "small", Limits(), tmp_path))
    lazy = asyncio.run(try_task(ScriptedModel(["Done!"]), by_name["write"], "all", Limits()))
    assert {each.system for each in able.requests} == {able.requests[0].system}
    assert same.solved
    assert (solved.solved, solved.steps, lazy.solved, lazy.note) == (True, 2, False, "Done!")
    assert "| small   | 1 of 1 |" in summary([solved, lazy], ["small"])
    assert len(by_name) == 20


def test_a_run_that_is_cut_off_goes_on_and_compares_what_both_profiles_tried(tmp_path: Path) -> None:
    file = tmp_path / "tried.jsonl"
    small = Tried("read", "small", True, 2, 1_000, 40, 9.6)
    first = Results(file)
    for one in (small, replace(small, profile="all", solved=False), replace(small, task="write")):
        first.add(one)
    again = Results(file)
    assert again.tried == first.tried
    assert again.has("write", "small")
    assert not again.has("write", "all")
    shown = summary(again.tried, ["small", "all"])
    assert "| small   | 1 of 1 |" in shown
    assert "| all     | 0 of 1 |" in shown
    assert "| read | solved, 10 s | not solved, 10 s |" in shown


def test_a_small_profile_takes_a_fraction_of_the_tokens() -> None:
    rows = [line.split("|") for line in asyncio.run(measured_tokens()).splitlines()[2:]]
    together = {row[1].strip(): int(row[5]) for row in rows}
    assert together["small"] < 650
    assert together["standard"] < 2_400
    assert together["all"] < 4_000
