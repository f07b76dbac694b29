"""`python -m tools.openai_clients`: nine clients, each with its own tools, and a table of how it went.

Each client has an environment of its own under `.cache/openai-clients` (made when it is missing, which takes
minutes) and a program beside this file. They talk to a real `holdfast web` with the settings that users get,
behind which a model answers by rules over HTTP (`weather_model.py`). `--write` puts the table into
`docs/openai-clients.md`; a client's name runs only that one.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from holdfast.testing.scripted_server import ScriptedServer
from tools.bootstrap import ROOT, TOOLS, UV_VERSION
from tools.openai_clients.weather_model import answer

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = ROOT / ".cache" / "openai-clients"
PAGE = ROOT / "docs" / "openai-clients.md"
BEGIN, END = "<!-- clients:begin -->\n", "<!-- clients:end -->\n"
SECONDS = 900
REQUESTS = 10_000
FAILED = "**no**"
STEPS = {
    "chat": "chat",
    "stream": "streamed",
    "tools": "own tools",
    "parallel": "several calls at once",
    "streamed_tools": "tools, streamed",
    "responses": "tools over `/v1/responses`",
    "unstored": "the same with `store: false`",
    "form": "structured output",
}


@dataclass(frozen=True, slots=True)
class Client:
    """A client, the package it is installed from, and what it does not have."""

    name: str
    package: str
    lacks: tuple[str, ...] = ()
    notes: str = ""

    @property
    def python(self) -> Path:
        return ENVIRONMENTS / self.name / "bin" / "python"

    @property
    def program(self) -> Path:
        return HERE / f"client_{self.name.removesuffix('-chat').replace('-', '_')}.py"


CHAT_ONLY = ("responses", "unstored")
CLIENTS = (
    Client("openai", "openai"),
    Client(
        "litellm",
        "litellm mcp",
        CHAT_ONLY,
        "litellm with `tools` needs the package `mcp`, which it does not install by itself.",
    ),
    Client("langchain-openai", "langchain-openai", ("unstored",)),
    Client("llm", "llm", CHAT_ONLY),
    Client(
        "aider-chat",
        "aider-chat",
        ("tools", "parallel", "streamed_tools", *CHAT_ONLY),
        "aider has no tools: an edit is text in the answer. Its structured output is a file that it changed.",
    ),
    Client("pydantic-ai", "pydantic-ai-slim[openai]", ("unstored",)),
    Client(
        "instructor",
        "instructor",
        CHAT_ONLY,
        "instructor runs no tools: its tools are forms that the model fills in.",
    ),
    Client("openai-agents", "openai-agents", ("unstored",)),
    Client("smolagents", "smolagents[openai]", CHAT_ONLY),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one client fared: its version, and for each step whether it went well and what was said."""

    client: Client
    version: str
    steps: dict[str, tuple[bool, str]]

    def cell(self, step: str) -> str:
        if step in self.client.lacks:
            return "-"
        ok, _ = self.steps.get(step, (False, ""))
        return "yes" if ok else FAILED

    def problem(self, step: str) -> str:
        _, said = self.steps.get(step, (False, "its program ended before"))
        return " ".join(said.split())[:300]


async def _run(*command: str, env: dict[str, str] | None = None, seconds: float = SECONDS) -> str:
    """Run a command; what it printed. Raises when it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        said, complained = await asyncio.wait_for(process.communicate(), seconds)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        raise RuntimeError(f"{command[0]} failed: {complained.decode(errors='replace')[-2000:]}")
    sys.stderr.write(complained.decode(errors="replace"))
    return said.decode(errors="replace")


async def install(client: Client) -> None:
    """Make the client's environment, unless it is there."""
    if client.python.exists():
        return
    uv = str(TOOLS / f"uv-{UV_VERSION}" / "bin" / "uv")
    sys.stderr.write(f"installing {client.package}\n")
    await _run(uv, "venv", "--quiet", "--python", sys.executable, str(client.python.parent.parent))
    await _run(uv, "pip", "install", "--quiet", "--python", str(client.python), *client.package.split())


async def try_client(client: Client, base_url: str, token: str) -> Outcome:
    """Run the client's program; a step that it never reached counts as failed."""
    distribution = client.package.partition(" ")[0].partition("[")[0]
    asks = f"from importlib.metadata import version; print(version({distribution!r}))"
    version = (await _run(str(client.python), "-c", asks)).strip()
    env = {**_plain_environment(), "OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": token}
    steps: dict[str, tuple[bool, str]] = {}
    try:
        said = await _run(str(client.python), str(client.program), env=env)
    except (RuntimeError, TimeoutError) as problem:
        sys.stderr.write(f"{client.name}: {problem!r}\n")
        said = ""
    for line in said.splitlines():
        if line.startswith("STEP "):
            step = json.loads(line.removeprefix("STEP "))
            steps[step["step"]] = (step["ok"], step["said"])
    return Outcome(client, version, steps)


def _plain_environment() -> dict[str, str]:
    """The environment without settings of Holdfast or of a client."""
    left_out = ("HOLDFAST_", "OPENAI_", "LITELLM_", "AIDER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


async def try_all(clients: list[Client]) -> list[Outcome]:
    """Start the model and the server, and try one client after the other."""
    with tempfile.TemporaryDirectory() as folder:
        async with ScriptedServer([answer] * REQUESTS) as model:
            home = dict.fromkeys(("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), folder)
            env = {
                **_plain_environment(),
                **home,
                "HOLDFAST_MODEL_PROVIDER": "openai",
                "HOLDFAST_MODEL_BASE_URL": model.base_url,
                "HOLDFAST_MODEL_NAME": "scripted",
                "HOLDFAST_WEB_TOKEN": "a-token-for-the-clients",
            }
            project = Path(folder) / "project"
            project.mkdir()
            start = "from holdfast.cli.main import main; main()"
            server = await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", start, "web", "--port", "0"),
                env=env,
                cwd=project,
                stdout=asyncio.subprocess.PIPE,
            )
            try:
                reader = server.stdout or asyncio.StreamReader()
                link = (await asyncio.wait_for(reader.readline(), SECONDS)).decode()
                if not link.startswith("http"):
                    raise RuntimeError(f"holdfast web did not start: {link!r}")
                base = f"{link.partition('?')[0].strip().rstrip('/')}/v1"
                return [await _tried(client, base, env["HOLDFAST_WEB_TOKEN"]) for client in clients]
            finally:
                server.terminate()
                await server.wait()


async def _tried(client: Client, base_url: str, token: str) -> Outcome:
    await install(client)
    outcome = await try_client(client, base_url, token)
    sys.stderr.write(f"{client.name}: {json.dumps(outcome.steps)}\n")
    return outcome


def table(outcomes: list[Outcome]) -> str:
    """The outcomes as a table, and what failed in words."""
    heads = ["client", "version", *STEPS.values()]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in outcomes:
        cells = [each.client.name, each.version, *(each.cell(step) for step in STEPS)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *(f"- {each.client.notes}" for each in outcomes if each.client.notes), ""]
    failed = [
        f"- **{each.client.name}**, {STEPS[step]}: {each.problem(step)}"
        for each in outcomes
        for step in STEPS
        if each.cell(step) == FAILED
    ]
    return "\n".join([*lines, *(failed or ["Nothing failed."])]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.openai_clients", description=__doc__)
    parser.add_argument("clients", nargs="*", choices=[*(each.name for each in CLIENTS), []])
    parser.add_argument("--write", action="store_true", help="put the table into the documentation")
    given = parser.parse_args()
    chosen = [each for each in CLIENTS if not given.clients or each.name in given.clients]
    outcomes = asyncio.run(try_all(chosen))
    text = table(outcomes)
    sys.stdout.write(text)
    if given.write:
        page = PAGE.read_text(encoding="utf-8")
        before, _, rest = page.partition(BEGIN)
        PAGE.write_text(before + BEGIN + "\n" + text + "\n" + END + rest.partition(END)[2], encoding="utf-8")
    return 1 if FAILED in text else 0


if __name__ == "__main__":
    sys.exit(main())
