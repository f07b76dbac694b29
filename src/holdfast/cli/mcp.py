"""`holdfast mcp`: the MCP servers whose tools the agent has, and Holdfast as an MCP server."""

from typing import Annotated

from cyclopts import App, Parameter
from pydantic import ValidationError

from holdfast.cli.output import show
from holdfast.core.errors import InvalidInput
from holdfast.core.settings import McpServerSettings
from holdfast.process import run
from holdfast.wiring import data_folder, load_settings, settings_path
from holdfast.wiring.mcp_settings import add_server, remove_server, server_named

mcp = App(name="mcp", help="MCP servers: list, add, remove, test, login; serve Holdfast to other agents.")
mcp.command(
    "holdfast.mcp_server.command:serve",
    name="serve",
    help="Serve past conversations and memory to other agents, over MCP.",
)


@mcp.default
def list_servers() -> None:
    """List the MCP servers whose tools the agent has."""
    servers = load_settings().tools.mcp_servers
    for each in servers:
        where = each.url or " ".join([each.command, *each.args])
        show(f"{each.name}  {where}{'  (trusted)' if each.trusted else ''}")
    if not servers:
        show(
            "There are none; `holdfast mcp add NAME COMMAND …` or `holdfast mcp add NAME https://…` adds one."
        )


mcp.command(list_servers, name="list")


@mcp.command
def add(
    name: str,
    address: Annotated[str, Parameter(name="address")],
    /,
    *arguments: Annotated[str, Parameter(allow_leading_hyphen=True)],
    env: Annotated[tuple[str, ...], Parameter(name="--env", negative="")] = (),
    header: Annotated[tuple[str, ...], Parameter(name="--header", negative="")] = (),
    trusted: Annotated[bool, Parameter(name="--trusted", negative="")] = False,
) -> None:
    """Add an MCP server to the settings file. Options of this command come before the name.

    Parameters
    ----------
    name
        What to call it; its tools are NAME__TOOL.
    address
        The command that starts it, or the http address of one that runs.
    arguments
        The arguments of the command.
    env
        NAME=VALUE for the environment of the command; may be given again.
    header
        NAME=VALUE for the requests to an address; may be given again.
    trusted
        Run its tools without asking.

    """
    remote = address.startswith(("http://", "https://"))
    if remote and arguments:
        raise InvalidInput(f"an address takes no arguments: {' '.join(arguments)}. Nothing was changed.")
    where = {"url": address} if remote else {"command": address, "args": tuple(arguments)}
    try:
        server = McpServerSettings.model_validate(
            {"name": name, **where, "env": _pairs(env), "headers": _pairs(header), "trusted": trusted}
        )
    except ValidationError as cause:
        wrong = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in cause.errors())
        raise InvalidInput(f"that is no MCP server: {wrong}. Nothing was changed.") from cause
    add_server(server)
    show(f"{name} is in {settings_path()}; `holdfast mcp test {name}` tries it")


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    for each in given:
        if "=" not in each:
            raise InvalidInput(f"{each!r} is not NAME=VALUE. Nothing was changed.")
    return {name: value for name, _, value in (each.partition("=") for each in given)}


@mcp.command
def remove(name: str, /) -> None:
    """Remove an MCP server from the settings file."""
    from holdfast.tools.mcp_sign_in import SIGN_INS, SignIns

    remove_server(name)
    SignIns(data_folder() / SIGN_INS).forget(name)
    show(f"{name} is removed from {settings_path()}")


@mcp.command
def test(name: str, /) -> None:
    """Start an MCP server and list what it offers."""
    run(_test(server_named(load_settings(), name)))


async def _test(server: McpServerSettings) -> None:
    from holdfast.tools.mcp import tools_of
    from holdfast.tools.mcp_sign_in import SIGN_INS, SignIns

    tools, problems = await tools_of(server, SignIns(data_folder() / SIGN_INS))
    for problem in problems:
        show(f"! {problem}")
    for tool in tools:
        first = next(iter(tool.description.strip().splitlines()), "")
        show(f"{tool.name}{'' if tool.changes else '  (reads only)'}: {first}")
    show(f"{server.name} works: {len(tools)} tools")


@mcp.command
def login(name: str, /) -> None:
    """Sign in to a remote MCP server, in a browser. What it gives is kept for this server."""
    from holdfast.cli.mcp_login import sign_in
    from holdfast.tools.mcp_sign_in import SIGN_INS

    server = server_named(load_settings(), name)
    offered = run(sign_in(server, data_folder() / SIGN_INS, show))
    show(f"You are signed in to {name}: {offered} tools")


@mcp.command
def logout(name: str, /) -> None:
    """Forget the sign-in to a remote MCP server."""
    from holdfast.tools.mcp_sign_in import SIGN_INS, SignIns

    if not SignIns(data_folder() / SIGN_INS).forget(name):
        raise InvalidInput(f"nobody is signed in to {name}")
    show(f"The sign-in to {name} is forgotten; the server may still know it")
