"""`make eval MODEL=…`: twenty small tool tasks with the real agent loop, one tool profile against another.

Any model that Holdfast opens by name can be tried: `gguf:/path/to/model.gguf`, `ollama:qwen3`, `openai:…`.
Each task has a fresh folder, a fresh session and the built-in tools; memory is off. The folder has the same
name each time and a profile's tasks run one after another, so the beginning of the prompt stays in the
model's cache, as in a conversation. `--results FILE` keeps what was tried, and the same command goes on from
there. `--write` puts the result into docs/small-models.md.
`--tokens` calls no model: it prints how much each profile takes of a request.
"""

import argparse
import asyncio
import os
import shutil
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
from bench.tried_tasks import Results, Tried, summary, write_page
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
async def fresh_place(parent: Path | None = None) -> AsyncGenerator[Place, None]:
    """A place that is gone at the end. Commands run in it without a sandbox and without asking.

    In the same parent folder each has the same name.
    """
    pools = Pools()
    with tempfile.TemporaryDirectory(prefix="holdfast-eval-") as name, SessionDB(":memory:") as db:
        work = (parent or Path(name)) / "work"
        work.mkdir()
        run_blocking = partial(off_loop, pools.work)
        needs = ToolDependencies(work, Path(name) / "data", os.environ, _deliver, run_blocking, db=db)
        box = await toolbox(ToolSettings(approval="never-ask", sandbox="off"), needs)
        try:
            yield Place(work, db, pools, box)
        finally:
            await box.close()
            pools.close(0)
            shutil.rmtree(work)


async def try_task(
    model: Model, task: Task, profile: str, limits: Limits, parent: Path | None = None
) -> Tried:
    """Run one task in a place of its own."""
    async with fresh_place(parent) as place:
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


async def evaluate(
    name: str, profiles: Sequence[str], tasks: Sequence[Task], limits: Limits, results: Results
) -> None:
    """Try what the results do not have yet."""
    left = [(task, profile) for profile in profiles for task in tasks if not results.has(task.name, profile)]
    if not left:
        return
    model = await open_model(name)
    try:
        with tempfile.TemporaryDirectory(prefix="holdfast-eval-") as parent:
            for task, profile in left:
                one = await try_task(model, task, profile, limits, Path(parent))
                results.add(one)
                print(one, file=sys.stderr, flush=True)
    finally:
        await model.close()


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--model", default="", help="such as gguf:/path, ollama:qwen3, openai:gpt-5-mini")
    options.add_argument("--profiles", default=",".join(PROFILES))
    options.add_argument("--tasks", type=int, default=len(TASKS), help="how many, the simplest first")
    options.add_argument("--seconds", type=float, default=300.0, help="how long a task may take")
    options.add_argument("--steps", type=int, default=8, help="how many steps a task may take")
    options.add_argument("--results", type=Path, help="a file that keeps what was tried, to go on later")
    options.add_argument("--write", action="store_true", help="put the result into docs/small-models.md")
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
    profiles, tasks = given.profiles.split(","), TASKS[: given.tasks]
    results = Results(given.results)
    try:
        asyncio.run(evaluate(given.model, profiles, tasks, limits, results))
    except KeyboardInterrupt:
        print("cut off; what was tried:", file=sys.stderr)
    said = f"{given.model.rpartition('/')[2]}:\n\n{summary(results.tried, profiles)}"
    print(f"\n{said}")
    if given.write:
        write_page(said)


if __name__ == "__main__":
    main()
