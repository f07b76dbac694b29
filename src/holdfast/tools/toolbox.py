"""Puts the built-in tools of one agent together, from the settings and what the tools need.

A `Toolbox` belongs to one agent: its background processes, its list and its MCP servers end with `close`.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.core.settings import ToolSettings
from holdfast.sessions import SessionDB
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.ask_user import ask_user
from holdfast.tools.contract import OffLoop, Tool
from holdfast.tools.environment import child_environment
from holdfast.tools.files import Files
from holdfast.tools.mcp import McpServers
from holdfast.tools.output import OUTPUTS, ResultBudget, bounded, output_tool
from holdfast.tools.past_sessions import PastSessions
from holdfast.tools.processes import Deliver, Processes, process_tools
from holdfast.tools.searching import search_tools
from holdfast.tools.skills import Skills
from holdfast.tools.terminal import terminal_tool
from holdfast.tools.todo import TodoList
from holdfast.tools.web import Web

SKILLS = "skills"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tools of an agent work with."""

    workspace: Path
    data_folder: Path
    environment: Mapping[str, str]
    """The program's own; commands see it without its secrets."""
    deliver: Deliver
    """Where the end of a background process is told."""
    off_loop: OffLoop
    db: SessionDB | None = None
    """Past conversations; without it they are not searched."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one agent, and what they keep running."""

    tools: tuple[Tool, ...]
    problems: tuple[str, ...]
    """What was left out and why, for a person to read."""
    prompt: str
    """What the system prompt says of skills; empty when there are none."""
    budget: ResultBudget
    policy: ApprovalPolicy
    processes: Processes
    servers: McpServers

    async def close(self) -> None:
        """End background processes and MCP servers. Idempotent."""
        await asyncio.gather(self.processes.close(), self.servers.close())


async def toolbox(settings: ToolSettings, around: Surroundings) -> Toolbox:
    """Make an agent's tools. What can't be used is left out and said in `problems`."""
    policy = ApprovalPolicy.of(settings.approval, settings.allow)
    budget = ResultBudget(around.data_folder / OUTPUTS, settings.result_characters)
    environment = child_environment(around.environment)
    processes = Processes(environment, budget, around.deliver)
    folder = Path(settings.skills_folder) if settings.skills_folder else around.data_folder / SKILLS
    skills = Skills(folder)
    shelf = await around.off_loop(skills.look)
    servers = McpServers(settings.mcp_servers, around.workspace)
    try:
        theirs, problems = await servers.open(around.off_loop)
    except BaseException:
        await servers.close()
        raise
    own = [
        terminal_tool(environment, budget),
        *process_tools(processes, budget),
        *Files(budget.characters).tools(),
        *search_tools(),
        output_tool(budget),
        Web().tool(),
        *(PastSessions(around.db).tools() if around.db is not None else ()),
        *skills.tools(),
        TodoList().tool(),
        ask_user,
    ]
    return Toolbox(
        tools=tuple(bounded(each, budget) for each in (*own, *theirs)),
        problems=(*shelf.problems, *problems),
        prompt=shelf.prompt(),
        budget=budget,
        policy=policy,
        processes=processes,
        servers=servers,
    )
