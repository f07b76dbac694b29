"""`holdfast acp`: Holdfast in an editor, by the Agent Client Protocol."""

import asyncio
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from holdfast.acp.editor_config import WHERE, Editor, editor_config
from holdfast.core.distribution import install_command
from holdfast.core.errors import InvalidInput
from holdfast.process import run

SDK = "acp"


def acp(*, print_config: Annotated[Editor | None, Parameter(name="--print-config")] = None) -> None:
    """Answer an editor on standard input and output. The editor starts this command itself.

    Parameters
    ----------
    print_config
        Print what to put into the editor's settings instead: zed, jetbrains, nvim or emacs.

    """
    if print_config is not None:
        _say(WHERE[print_config])
        sys.stdout.write(editor_config(print_config))
        return
    if find_spec(SDK) is None:
        raise InvalidInput(f"editors need the extra: {install_command('acp')}")
    if sys.stdin.isatty():
        raise InvalidInput(
            "an editor starts `holdfast acp` and speaks a protocol with it; "
            "`holdfast acp --print-config zed` prints what to put into its settings"
        )
    run(_serve())


async def _serve() -> None:
    from acp import AgentSideConnection

    from holdfast.acp.editor_agent import EditorAgent
    from holdfast.acp.project_hosts import ProjectHosts
    from holdfast.acp.stdio_transport import StdioTransport, take_over_stdio
    from holdfast.wiring import exit_watchdog, load_settings
    from holdfast.wiring.graceful_stop import GracefulStop

    settings = load_settings()
    leaving = GracefulStop(exit_watchdog(settings), _say)
    with leaving.signals:
        hosts = ProjectHosts(settings, leaving)
        agent = EditorAgent(hosts, str(Path.cwd()))
        connection = AgentSideConnection(agent, StdioTransport(*take_over_stdio()), listening=False)
        listening = asyncio.ensure_future(connection.listen())
        try:
            await leaving.wait_for(listening)
        finally:
            listening.cancel()
            await agent.close()
            await hosts.close()
            await connection.close()
    leaving.raise_signal()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
