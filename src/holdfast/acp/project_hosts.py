"""`ProjectHosts`: the hosts of one editor, one for each folder that it works in.

An agent's tools work in one folder, so each folder has a host. All of them are on the same store, as several
terminals are.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from acp import schema
from pydantic import ValidationError

from holdfast.acp.session_options import MODES, OFFERED
from holdfast.agent.scope_policy import ScopePolicy
from holdfast.core.errors import InvalidInput
from holdfast.core.settings import McpServerSettings, Settings
from holdfast.host.contract import default_policy
from holdfast.sessions.contract import OWNER
from holdfast.tools.editor import Editor
from holdfast.wiring.graceful_stop import GracefulStop
from holdfast.wiring.settings_host import Host

logger = logging.getLogger(__name__)

SOURCE = "acp"
EditorServer = schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio


@dataclass(slots=True)
class Project:
    """A folder of the editor, with the mode in which its agents work."""

    folder: Path
    settings: Settings
    mode: str
    opened: "asyncio.Future[Host]" = field(init=False)
    editors: dict[str, Editor] = field(default_factory=dict)
    """What tools may use of the editor, by the first session of the conversation that it shows."""

    def policy(self, scope: str) -> ScopePolicy:
        """What an agent may do now."""
        return MODES[self.mode][2] if scope == OWNER else default_policy(scope)

    @property
    def host(self) -> Host:
        return self.opened.result()

    def forget(self, editor: Editor) -> None:
        """The editor shows a conversation no more; its tools go on without it."""
        for conversation in [name for name, each in self.editors.items() if each is editor]:
            del self.editors[conversation]


class ProjectHosts:
    """Opens hosts, and closes them all within one time limit."""

    def __init__(self, settings: Settings, leaving: GracefulStop) -> None:
        self._settings = settings
        self._leaving = leaving
        self._projects: dict[tuple[str, ...], Project] = {}

    async def open(self, cwd: str, servers: Sequence[EditorServer]) -> Project:
        """The project of a folder, with the editor's MCP servers beside those of the settings."""
        folder = Path(cwd)
        if not folder.is_absolute() or "\0" in cwd:
            raise InvalidInput(f"cwd is the absolute path of a folder, not {cwd!r}; no session was opened")
        named = tuple(_server(each) for each in servers)
        key = (cwd, *(each.model_dump_json() for each in named))
        if key not in self._projects:
            project = self._projects[key] = self._project(folder, named)
            project.opened = asyncio.ensure_future(_opened(project))
        project = self._projects[key]
        try:
            await asyncio.shield(project.opened)
        except BaseException:
            if project.opened.done():
                self._projects.pop(key, None)  # the next try opens it anew
            raise
        return project

    def any(self) -> Project | None:
        """A project that is open: every one has the same store."""
        return next((each for each in self._projects.values() if _is_open(each)), None)

    def _project(self, folder: Path, servers: tuple[McpServerSettings, ...]) -> Project:
        tools = self._settings.tools
        known = {each.name for each in tools.mcp_servers}
        more = tuple(each for each in servers if each.name not in known)
        chosen = tools.model_copy(update={"mcp_servers": (*tools.mcp_servers, *more)})
        settings = self._settings.model_copy(update={"tools": chosen})
        return Project(folder, settings, OFFERED[tools.approval][0])

    async def close(self) -> None:
        """Stop what runs, by the rules of every surface; what was done is kept."""
        opened = [each for each in self._projects.values() if _is_open(each)]
        for project in self._projects.values():
            project.opened.cancel()
        await asyncio.gather(*(self._leaving.close(each.host, each.settings) for each in opened))


def _is_open(project: Project) -> bool:
    opened = project.opened
    return opened.done() and not opened.cancelled() and opened.exception() is None


async def _opened(project: Project) -> Host:
    host = Host(
        project.settings,
        source=SOURCE,
        model_required=False,
        scope_policy=project.policy,
        started_in=project.folder,
        editor=project.editors.get,
    )
    await host.__aenter__()
    for problem in host.overview.problems:
        logger.warning("acp.problem", extra={"problem": problem})
    return host


def _server(given: EditorServer) -> McpServerSettings:
    """An MCP server of the editor, as the settings name one."""
    name = "-".join("".join(c if c.isascii() and c.isalnum() else " " for c in given.name).split())[
        :24
    ].strip("-")
    try:
        if isinstance(given, schema.McpServerStdio):
            env = {each.name: each.value for each in given.env}
            return McpServerSettings(name=name, command=given.command, args=tuple(given.args), env=env)
        if isinstance(given, schema.HttpMcpServer):
            headers = {each.name: each.value for each in given.headers}
            return McpServerSettings(name=name, url=given.url, headers=headers)
    except ValidationError as cause:
        raise InvalidInput(
            f"the MCP server {given.name!r} can't be used: {cause.errors()[0]['msg']}"
        ) from cause
    raise InvalidInput(f"the MCP server {given.name!r} is reached by a way that Holdfast does not speak")
