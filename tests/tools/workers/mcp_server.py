"""An MCP server for tests, on standard input and output, or on HTTP when a port is given."""

import asyncio
import os
import sys
from pathlib import Path

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ImageContent, TextContent, ToolAnnotations

server = MCPServer("test")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fail."""
    raise ToolError("no luck")


@server.tool()
def environment() -> str:
    """Show the environment."""
    return "\n".join(f"{name}={value}" for name, value in sorted(os.environ.items()))


@server.tool()
def die() -> str:
    """End at once, without an answer."""
    os._exit(3)


@server.tool()
def whoami() -> str:
    """Give the number of this process."""
    return str(os.getpid())


@server.tool(structured_output=False)
def parts() -> list[TextContent | ImageContent]:
    """Give several parts."""
    return [TextContent(text="words\x00"), ImageContent(data="AAAA", mime_type="image/png")]


@server.tool(name="odd.name/" + "x" * 80)
def odd() -> str:
    """Have an odd name."""
    return "odd"


def note(file: str, text: str) -> None:
    Path(file).write_text(text)


@server.tool()
async def hang(file: str, ctx: Context) -> str:
    """Wait for ever; say in a file when it began and when it was cancelled."""
    await ctx.report_progress(1, 2, "begun")
    note(file, "begun")
    try:
        await asyncio.Event().wait()
    finally:
        note(file, "cancelled")
    return "never"


if __name__ == "__main__":
    sys.stderr.write("hello from the server\n")
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
