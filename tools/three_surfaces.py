"""Plays one conversation on three surfaces and writes down what each showed: `docs/three-surfaces.md`.

It begins in an editor (the client side of the ACP SDK), goes on in a terminal (a real PTY), ends on the page
(a real Chromium), and is loaded in the editor again. The model is scripted; everything else is the real
thing, in processes of its own. `python -m tools.three_surfaces --write` writes the page.
"""

import re
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import schema
from acp.helpers import text_block
from playwright.sync_api import Browser, expect

from holdfast.process import run
from tests.acp.editor_client import EditorClient, editor, project
from tests.cli.real_terminal import PATIENCE, Home
from tests.web.page.browser_page import answers, said, say, see_answer, see_idle
from tests.web.page.chromium import a_browser
from tests.web.page.web_server import WebServer

PAGE = Path(__file__).resolve().parent.parent / "docs" / "three-surfaces.md"
ROWS, COLUMNS = 40, 90
ABOUT = """\
Made by `python -m tools.three_surfaces --write`: the same conversation, begun in an editor, continued in a
terminal, finished on the page, and loaded in the editor again. The editor is the client side of the ACP SDK,
the terminal a real PTY, the browser a real Chromium; each surface is a process of its own. The model is
scripted."""


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


IN_EDITOR = "Write a greeting and show it."
IN_TERMINAL = "Make it louder."
ON_PAGE = "What did we do?"
SAID = (IN_EDITOR, IN_TERMINAL, ON_PAGE)
ANSWERS = ("The greeting is written.", "It is loud now.", "We wrote a greeting and made it loud.")
EDITOR_SCRIPT = [
    call("write_file", path="greeting.txt", text="hello\n"),
    call("run_command", command="cat greeting.txt"),
    ANSWERS[0],
]
TERMINAL_SCRIPT = [call("edit_file", path="greeting.txt", old="hello", new="HELLO"), ANSWERS[1]]
PAGE_SCRIPT = [ANSWERS[2]]


@dataclass
class Played:
    """What each surface showed, and what is on record in the end."""

    editor: list[str] = field(default_factory=list)
    terminal: str = ""
    page: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    record: list[str] = field(default_factory=list)
    file: str = ""


def play(folder: Path) -> Played:
    """Hold the conversation."""
    home = Home(folder)
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = ""
    played = Played()
    home.script(EDITOR_SCRIPT)
    session_id = run(_begin_in_editor(home, played))
    home.script(TERMINAL_SCRIPT)
    _go_on_in_terminal(home, session_id, played)
    home.script(PAGE_SCRIPT)
    # While its driver is open, no loop can run.
    with a_browser() as browser:
        _finish_on_page(home, session_id, browser, played)
    run(_load_in_editor(home, session_id, played))
    played.record = home.said()
    played.file = (home.project / "greeting.txt").read_text(encoding="utf-8")
    return played


async def _begin_in_editor(home: Home, played: Played) -> str:
    async with editor(home) as (client, agent, _):
        sid = (await agent.new_session(cwd=project(home), mcp_servers=[])).session_id
        await agent.prompt(session_id=sid, prompt=[text_block(IN_EDITOR)])
        played.editor = shown_updates(client, home)
        return str(sid)


def _go_on_in_terminal(home: Home, session_id: str, played: Played) -> None:
    terminal = home.terminal("chat", "--session", session_id, rows=ROWS, columns=COLUMNS)
    terminal.see(IN_EDITOR, ANSWERS[0], "ready")
    terminal.type(IN_TERMINAL)
    terminal.see(f"> {IN_TERMINAL}", ANSWERS[1], "ready")
    shown = "\n".join(line.rstrip() for line in terminal.screen.shown().splitlines()).strip("\n")
    played.terminal = re.sub(r"\n{3,}", "\n\n", shown)
    if terminal.leave() != 0:
        raise AssertionError("the terminal did not end well")


def _finish_on_page(home: Home, session_id: str, browser: Browser, played: Played) -> None:
    script = home.environment()["HOLDFAST_MODEL_NAME"]
    settings = {"HOLDFAST_MODEL_PROVIDER": "scripted", "HOLDFAST_MODEL_NAME": script, **home.settings}
    server = WebServer(home.folder, "", **settings).start()
    try:
        page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
        expect.set_options(timeout=PATIENCE * 1000)
        page.goto(server.link)
        page.goto(f"{server.url}#/s/{session_id}")
        see_answer(page, ANSWERS[1])
        say(page, ON_PAGE)
        see_answer(page, ANSWERS[2])
        see_idle(page)
        asked, answered = said(page).all_inner_texts(), answers(page).all_inner_texts()
        for one, other in zip(asked, answered, strict=True):
            # Below the words stand the buttons of a message.
            played.page += [f"You: {one.strip().splitlines()[0]}", f"Holdfast: {' '.join(other.split())}"]
        page.context.close()
    finally:
        server.stop()


async def _load_in_editor(home: Home, session_id: str, played: Played) -> None:
    async with editor(home) as (client, agent, _):
        await agent.load_session(cwd=project(home), session_id=session_id, mcp_servers=[])
        await client.until(lambda: ANSWERS[2] in client.text())
        played.loaded = shown_updates(client, home)


def shown_updates(client: EditorClient, home: Home) -> list[str]:
    """One line for each thing that the editor was told; pieces of one text are put together."""
    lines: list[tuple[str, str]] = []
    for update in client.updates:
        kind, text = _line(update)
        if kind and lines and lines[-1][0] == kind and kind in ("person", "agent"):
            lines[-1] = (kind, lines[-1][1] + text)
        elif kind:
            lines.append((kind, text))
    asked = [f"asked: {call.title}, answered {client.answer}" for call, _ in client.asked]
    return [
        f"{kind}: {' '.join(text.split())}".replace(str(home.folder), "FOLDER")
        for kind, text in [*lines, *(("permission", each) for each in asked)]
    ]


def _line(update: Any) -> tuple[str, str]:  # noqa: ANN401 - any update of the protocol
    match update:
        case schema.UserMessageChunk():
            return "person", getattr(update.content, "text", "")
        case schema.AgentMessageChunk():
            return "agent", getattr(update.content, "text", "")
        case schema.ToolCallStart():
            return "call", f"{update.title} ({update.kind}, {update.status})"
        case schema.ToolCallProgress() if update.status:
            return "call", f"{update.status}"
        case _:
            return "", ""


def written(played: Played) -> str:
    """The page of the documentation."""
    parts = [
        "# One conversation on three surfaces",
        ABOUT,
        "## In the editor: `holdfast acp`",
        _block(played.editor),
        "## In the terminal: `holdfast chat --session ID`",
        _block(played.terminal.splitlines()),
        "## On the page: `holdfast web`",
        _block(played.page),
        "## Loaded in the editor again",
        _block(played.loaded),
        "## On record",
        "What the person said, each once and in order:",
        _block(played.record),
        f"The file that the agent wrote and changed holds `{played.file.strip()}`.",
    ]
    return "\n\n".join(parts) + "\n"


def _block(lines: list[str]) -> str:
    return "\n".join(["```text", *lines, "```"])


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        text = written(play(Path(folder)))
    if "--write" in sys.argv[1:]:
        PAGE.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{PAGE} is written\n")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
