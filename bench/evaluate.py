"""`make eval MODEL=…`: twenty small tool tasks with the real agent loop, one tool profile against another.

Any model that Holdfast opens by name can be tried: `gguf:/path/to/model.gguf`, `ollama:qwen3`, `openai:…`.
Each task has a fresh folder, a fresh session and the built-in tools; memory is off.
`--tokens` calls no model: it prints how much each profile takes of a request.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.table import markdown_table
from bench.tool_tasks import TASKS, Outcome, Task
from holdfast.agent import AgentOptions, Limits, Pools, SessionAgent
from holdfast.agent.context_use import beside_messages
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.agent.prompt import Prompt
from holdfast.agent.tool_profile import ToolProfiles
from holdfast.agent.tool_set import ToolSet
from holdfast.core.clock import SystemClock
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event
from holdfast.core.settings import TOOL_PROFILES, ToolSettings
from holdfast.models.contract import Model
from holdfast.process import off_loop
from holdfast.providers.local.provider import LocalMemory
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.tools.contract import Person, Tool
from holdfast.tools.open_questions import CallIds, OpenQuestions, PersonBehindPolicy
from holdfast.tools.toolbox import Toolbox, ToolDependencies, toolbox
from holdfast.wiring.library_models import open_model

PROFILES = ("small", "all")


@dataclass(frozen=True, slots=True)
class Tried:
    """How one task went under one profile."""

    task: str
    profile: str
    solved: bool
    steps: int
    input_tokens: int
    output_tokens: int
    seconds: float
    note: str = ""


async def _deliver(session_id: str, text: str) -> None:
    """A background process that ends has nobody to tell."""


@dataclass(frozen=True, slots=True)
class Place:
    """A fresh folder and store for one task, and the built-in tools in it."""

    folder: Path
    db: SessionDB
    pools: Pools
    box: Toolbox

    def options(self, profile: str, limits: Limits) -> AgentOptions:
        def person(session: str, turn: str, call: str, _: object) -> Person:
            return PersonBehindPolicy(self.box.policy, OpenQuestions(), _ignore, CallIds(session, turn, call))

        return AgentOptions(
            workspace=self.folder,
            limits=limits,
            person_for=person,
            tool_profiles=ToolProfiles(profile),
            pools=self.pools,
        )

    def tools(self, model: Model, options: AgentOptions) -> list[Tool]:
        return [*self.box.tools, delegate_tool(Offer(model, self.db, self.box.tools, options))]


@asynccontextmanager
async def fresh_place() -> AsyncGenerator[Place, None]:
    """A place that is gone at the end. Commands run in it without a sandbox and without asking."""
    pools = Pools()
    with tempfile.TemporaryDirectory(prefix="holdfast-eval-") as name, SessionDB(":memory:") as db:
        work = Path(name) / "work"
        work.mkdir()
        run_blocking = partial(off_loop, pools.work)
        needs = ToolDependencies(work, Path(name) / "data", os.environ, _deliver, run_blocking, db=db)
        box = await toolbox(ToolSettings(approval="never-ask", sandbox="off"), needs)
        try:
            yield Place(work, db, pools, box)
        finally:
            await box.close()
            pools.close(0)


async def try_task(model: Model, task: Task, profile: str, limits: Limits) -> Tried:
    """Run one task in a place of its own."""
    async with fresh_place() as place:
        for name, text in task.files.items():
            (place.folder / name).write_text(text, encoding="utf-8")
        options = place.options(profile, limits)
        agent = SessionAgent(model, place.db, tools=place.tools(model, options), options=options)
        began = time.monotonic()
        try:
            # A turn counts its seconds between steps, and a small model may write one answer for ever.
            async with asyncio.timeout(limits.max_seconds):
                result = await agent.run(task.prompt)
        except (HoldfastError, TimeoutError) as failure:
            why = str(failure)[:80] or "it took too long"
            return Tried(task.name, profile, False, 0, 0, 0, time.monotonic() - began, why)
        finally:
            await agent.close()
        seconds = time.monotonic() - began
        solved = task.check(Outcome(place.folder, result.final_response, place.db))
        usage = result.usage
        note = "" if solved else " ".join(result.final_response.split())[:80]
        return Tried(task.name, profile, solved, result.steps, usage.input, usage.output, seconds, note)


def _ignore(_: Event) -> None:
    pass


def summary(tried: Sequence[Tried]) -> str:
    """One line for each profile, then one for each task."""
    names = list(dict.fromkeys(each.profile for each in tried))
    totals = []
    for name in names:
        own = [each for each in tried if each.profile == name]
        count = len(own)
        totals.append(
            (
                name,
                f"{sum(each.solved for each in own)} of {count}",
                f"{sum(each.input_tokens for each in own) / count:,.0f}",
                f"{sum(each.output_tokens for each in own) / count:,.0f}",
                f"{sum(each.steps for each in own) / count:.1f}",
                f"{sum(each.seconds for each in own) / count:.1f}",
            )
        )
    heads = ("profile", "solved", "input tokens a task", "output tokens", "steps", "seconds")
    by_task = [
        (task, *(_cell(tried, task, name) for name in names))
        for task in dict.fromkeys(each.task for each in tried)
    ]
    return f"{markdown_table(heads, totals)}\n\n{markdown_table(('task', *names), by_task)}"


def _cell(tried: Sequence[Tried], task: str, profile: str) -> str:
    found = next((each for each in tried if (each.task, each.profile) == (task, profile)), None)
    if found is None:
        return ""
    state = "solved" if found.solved else "not solved" if found.steps else "not ended"
    return f"{state}, {found.seconds:.0f} s"


async def measured_tokens() -> str:
    """How many tokens the system text and the tools of each profile take in every request, by their bytes."""
    rows = []
    async with fresh_place() as place:
        model, options = ScriptedModel(), place.options("all", Limits())
        memory = LocalMemory(place.folder.parent / "memory.db", clock=SystemClock(), embedder=None)
        remembering = [
            Tool(each["name"], each["description"], each["parameters"], place.box.tools[0].run)
            for each in (tool["function"] for tool in memory.get_tool_schemas())
        ]
        every = ToolSet([*place.tools(model, options), *remembering], place.pools.work, options)
        for name in TOOL_PROFILES:
            profile = ToolProfiles(name).of(model.traits)
            schemas = every.under(profile, set()).schemas
            block = "" if profile.brief else memory.system_prompt_block()
            system = Prompt(workspace=place.folder, memory=block, brief=profile.brief).system()
            tools, text = beside_messages("", schemas), beside_messages(system, ())
            rows.append((name, len(schemas), tools, text, tools + text))
        memory.shutdown()
    return markdown_table(("profile", "tools", "tokens of tools", "of the system text", "together"), rows)


async def evaluate(name: str, profiles: Sequence[str], tasks: Sequence[Task], limits: Limits) -> list[Tried]:
    model = await open_model(name)
    tried = []
    try:
        for task in tasks:
            for profile in profiles:
                one = await try_task(model, task, profile, limits)
                tried.append(one)
                state = "solved" if one.solved else "not solved"
                print(
                    f"{one.task:<14} {one.profile:<9} {state:<11} {one.steps} steps {one.input_tokens:>6} in "
                    f"{one.output_tokens:>5} out {one.seconds:6.1f} s  {one.note}",
                    file=sys.stderr,
                    flush=True,
                )
    finally:
        await model.close()
    return tried


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", default="", help="such as gguf:/path, ollama:qwen3, openai:gpt-5-mini")
    options.add_argument("--profiles", default=",".join(PROFILES))
    options.add_argument("--tasks", type=int, default=len(TASKS), help="how many, the simplest first")
    options.add_argument("--seconds", type=float, default=300.0, help="how long a task may take")
    options.add_argument("--steps", type=int, default=8, help="how many steps a task may take")
    options.add_argument(
        "--tokens", action="store_true", help="only print what profiles take; needs no model"
    )
    given = options.parse_args()
    print(asyncio.run(measured_tokens()))
    if given.tokens:
        return
    if not given.model:
        options.error("name a model: make eval MODEL=gguf:/path/to/model.gguf, or MODEL=ollama:qwen3")
    limits = Limits(max_steps=given.steps, max_seconds=given.seconds)
    tried = asyncio.run(evaluate(given.model, given.profiles.split(","), TASKS[: given.tasks], limits))
    print(f"\n{given.model.rpartition('/')[2]}, {given.tasks} tasks:\n\n{summary(tried)}")


if __name__ == "__main__":
    main()
