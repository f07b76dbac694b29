"""An MCP server for tests that uses what the protocol has, in its older or its newer form."""

import os
import sys
from typing import Annotated

import anyio
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.lowlevel import NotificationOptions
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolResult,
    CreateMessageResult,
    ImageContent,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAAC0lEQVR42mNgAAIAAAUAAen63NgAAAAASUVORK5CYII="

server = MCPServer("rich")


class Count(BaseModel):
    """A form with one field."""

    count: int


def ask_count() -> Elicit[Count]:
    return Elicit("How many?", Count)


def ask_model() -> Sample:
    asked = SamplingMessage(role="user", content=TextContent(text="what is it?"))
    return Sample([asked], max_tokens=100, system_prompt="be brief")


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool(structured_output=False)
def picture() -> list[ImageContent]:
    """Show a picture."""
    return [ImageContent(data=PIXEL, mime_type="image/png")]


@server.tool()
def weather() -> CallToolResult:
    """Give words and data."""
    return CallToolResult(content=[TextContent(text="sunny")], structured_content={"degrees": 21})


@server.tool()
async def count(ctx: Context) -> str:
    """Report progress, with words and without."""
    await ctx.report_progress(1, 2)
    await ctx.report_progress(2, 2, "done")
    return "counted"


@server.tool()
def order(count: Annotated[ElicitationResult[Count], Resolve(ask_count)]) -> str:
    """Ask the person how many."""
    return f"accept {count.data.count}" if isinstance(count, AcceptedElicitation) else count.action


@server.tool()
def think(said: Annotated[CreateMessageResult, Resolve(ask_model)]) -> str:
    """Ask the client's model."""
    return said.content.text if isinstance(said.content, TextContent) else "?"


@server.tool()
def roots(known: Annotated[ListRootsResult, Resolve(ask_roots)]) -> str:
    """Ask for the workspace."""
    return "\n".join(str(each.uri) for each in known.roots)


@server.tool()
async def grow(ctx: Context) -> str:
    """Offer one more tool."""

    def grown() -> str:
        """Be new."""
        return "new"

    server.add_tool(grown)
    await ctx.notify_tools_changed()
    if is_older:
        await ctx.session.send_tool_list_changed()
    return "grown"


@server.tool()
def die() -> str:
    """End at once, without an answer."""
    os._exit(3)


@server.resource("text://greeting")
def greeting() -> str:
    """A greeting."""
    return "good morning"


@server.prompt()
def hello(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


async def serve_older() -> None:
    """Know only the older protocol."""
    inner = server._lowlevel_server  # noqa: SLF001 - the SDK has no other way to serve one protocol alone
    options = inner.create_initialization_options(NotificationOptions(tools_changed=True))
    async with stdio_server() as (reading, writing):
        await serve_loop(inner, reading, writing, lifespan_state={}, init_options=options)


is_older = sys.argv[1:] == ["older"]

if __name__ == "__main__":
    if is_older:
        anyio.run(serve_older)
    else:
        server.run("stdio")
