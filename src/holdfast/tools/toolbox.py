"""Creates the built-in tools of one agent, from the settings and from the objects that the tools need.

A `Toolbox` belongs to one agent: `close` ends its background processes and MCP servers.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from holdfast.core.own_files import OwnFiles
from holdfast.core.settings import ToolSettings
from holdfast.sessions import SessionDB
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.ask_user import ask_user
from holdfast.tools.contract import OffLoop, Tool, ToolContext
from holdfast.tools.editor import Editor, EditorFor, EditorOf, no_editor
from holdfast.tools.editor_terminal import EditorTerminals
from holdfast.tools.environment import child_environment
from holdfast.tools.file_history import FileHistory
from holdfast.tools.file_search import search_tools
from holdfast.tools.files import Files
from holdfast.tools.kept_contents import FILE_HISTORY, MEGABYTE, KeptContents
from holdfast.tools.mcp import McpServers
from holdfast.tools.mcp_requests import Complete
from holdfast.tools.mcp_sign_in import SIGN_INS, SignIns
from holdfast.tools.opened_file import OpenedFiles
from holdfast.tools.output import OUTPUTS, ResultBudget, bounded, output_tool
from holdfast.tools.past_sessions import PastSessions
from holdfast.tools.processes import Deliver, Processes, process_tools
from holdfast.tools.sandbox import SandboxOptions
from holdfast.tools.sandbox_choice import CommandSandbox
from holdfast.tools.schedules import ScheduleTools
from holdfast.tools.skills import Skills
from holdfast.tools.terminal import terminal_tool
from holdfast.tools.todo import TodoList
from holdfast.tools.web import PageFetcher
from holdfast.tools.web_search import search_service, search_web_tools

SKILLS = "skills"


@dataclass(frozen=True, slots=True)
class ToolDependencies:
    """The objects and folders that the tools of an agent need."""

    workspace: Path
    data_folder: Path
    environment: Mapping[str, str]
    """The environment of the program; commands see it without the secrets."""
    deliver: Deliver
    """Sends the end of a background process to its session."""
    off_loop: OffLoop
    db: SessionDB | None = None
    """The store of past conversations; None means that they are not searched."""
    own_files: OwnFiles = field(default_factory=OwnFiles)
    """Files that tools ask about before they use them, and that sandboxes hide."""
    own_folders: tuple[Path, ...] = ()
    """The folders among them, whether they exist or not."""
    workspace_label: str = "the workspace"
    """The name of the workspace, for a person to read."""
    time_zone: str = ""
    """The time zone of schedules that name none; empty means the machine's."""
    complete: Complete | None = None
    """Asks the model for MCP servers; None means that none may."""
    editor: EditorFor | None = None
    """The editor that shows a conversation; None where people use no editor."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one agent, and the processes and servers that they keep."""

    own: tuple[Tool, ...]
    """Those that stay the same; `server_tools` may change while the agent lives."""
    problems: tuple[str, ...]
    """Problems of tools that were left out, for a person to read."""
    of_skills: frozenset[str]
    prompt: str
    """The part of the system prompt about skills; empty when there are none."""
    budget: ResultBudget
    policy: ApprovalPolicy
    processes: Processes
    servers: McpServers
    sandbox: CommandSandbox
    history: FileHistory | None = None
    """The changes of files; None without a store."""

    @property
    def server_tools(self) -> tuple[Tool, ...]:
        """The tools that the MCP servers offer now."""
        return self.servers.tools

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All tools as they are now."""
        return (*self.own, *self.server_tools)

    @property
    def shared(self) -> frozenset[str]:
        """The tools that reach what is the owner's: skills, and tools of MCP servers."""
        return self.of_skills | {each.name for each in self.servers.tools}

    def forget(self, session_id: str) -> None:
        """Remove what is kept of a deleted session: outputs, contents of changed files, sandbox folders.

        May block.
        """
        self.budget.forget(session_id)
        self.sandbox.forget(session_id)
        if self.history is not None:
            self.history.forget(session_id)

    async def close(self) -> None:
        """End background processes and MCP servers, and remove private folders. It may be called again."""
        await asyncio.gather(self.processes.close(), self.servers.close())
        await self.sandbox.close()


async def toolbox(settings: ToolSettings, deps: ToolDependencies) -> Toolbox:
    """Create the tools of an agent. `problems` names those that can't be used."""
    policy = ApprovalPolicy.of(settings.approval, settings.allow)
    budget = ResultBudget(deps.data_folder / OUTPUTS, settings.result_characters)
    environment = child_environment(deps.environment)
    sandbox = CommandSandbox(settings, deps.off_loop, _own(deps), partial(_conversation, deps))
    processes = Processes(environment, budget, deps.deliver, sandbox)
    folder = Path(settings.skills_folder) if settings.skills_folder else deps.data_folder / SKILLS
    skills = Skills(folder)
    listing = await deps.off_loop(skills.scan)
    bound = partial(bounded, budget=budget)
    sign_ins = SignIns(deps.data_folder / SIGN_INS)
    servers = McpServers(settings.mcp_servers, deps.workspace, deps.complete, bound, sign_ins)
    try:
        problems = await servers.open(deps.off_loop)
    except BaseException:
        await servers.close()
        raise
    of_skills = skills.tools()
    history = file_history(settings, deps)
    editor_of = _editors(deps)
    in_editor = EditorTerminals(editor_of, deps.environment.keys() - environment.keys())
    own = [
        terminal_tool(environment, budget, sandbox, history, in_editor),
        *process_tools(processes, budget),
        *Files(budget.characters, OpenedFiles(history, editor_of)).tools(),
        *search_tools(),
        output_tool(budget),
        PageFetcher().tool(),
        *search_web_tools(search_service(settings, deps.environment)),
        *(PastSessions(deps.db).tools() if deps.db is not None else ()),
        *(ScheduleTools(deps.db, deps.time_zone).tools() if deps.db is not None else ()),
        *of_skills,
        TodoList().tool(),
        ask_user,
    ]
    return Toolbox(
        own=tuple(map(bound, own)),
        problems=(*listing.problems, *problems),
        of_skills=frozenset(each.name for each in of_skills),
        prompt=listing.prompt(),
        budget=budget,
        policy=policy,
        processes=processes,
        servers=servers,
        sandbox=sandbox,
        history=history,
    )


def file_history(settings: ToolSettings, deps: ToolDependencies) -> FileHistory | None:
    """What tools change in files, so that it can be taken back; None without a store."""
    if deps.db is None:
        return None
    kept = KeptContents(deps.data_folder / FILE_HISTORY, settings.undo_mb * MEGABYTE)
    return FileHistory(deps.db, kept)


def _editors(deps: ToolDependencies) -> EditorOf:
    """Finds the editor that shows the conversation of a call."""
    db, editor = deps.db, deps.editor
    if db is None or editor is None:
        return no_editor

    async def editor_of(context: ToolContext) -> Editor | None:
        conversation = await deps.off_loop(db.file_changes.conversation, context.outer_turn)
        return None if conversation is None else editor(conversation)

    return editor_of


def _own(deps: ToolDependencies) -> SandboxOptions:
    folders = tuple(Path(os.path.realpath(each)) for each in deps.own_folders)
    return SandboxOptions(
        hidden=deps.own_files.private,
        folders=folders,
        fixed=deps.own_files.program,
        workspace=deps.workspace_label,
    )


async def _conversation(deps: ToolDependencies, session_id: str) -> str:
    """The first session of the conversation.

    After a compaction it continues in another one, with the same files.
    """
    if deps.db is None:
        return session_id
    lineage: list[str] = await deps.off_loop(deps.db.sessions.lineage, session_id)
    return lineage[0] if lineage else session_id
