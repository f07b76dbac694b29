"""Drives `holdfast acp` with an ACP client of others and writes down the outcome, for docs/editors.md.

The client is acpx (npm), which offers its files and its terminals. `python -m tools.acpx_session --write`
plays a working session: new, prompt, tools with permission, differences, cancel, list, load, and `kill -9`
in the middle of a turn. Each step is a process of acpx; the model is scripted.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from holdfast import SessionDB
from holdfast.core.clock import SystemClock
from tests.cli.real_terminal import Home
from tools.bootstrap import ROOT
from tools.peers import ACPX, between, command

PAGE = ROOT / "docs" / "editors.md"
MARK = "acpx"
PATIENCE = 180.0
TRIES = 5
OWN_QUEUE = ("queue owner failed to start", "Queue owner is shutting down")
"""What acpx says of its own queue when a machine is slow; no prompt was sent then."""
PERMISSION_DENIED = 5
"""The exit code of acpx when a permission was refused."""


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


WRITE = call("write_file", path="greeting.txt", text="hi\n")
EDIT = call("edit_file", path="greeting.txt", old="hi", new="hello")
SHOW = call("run_command", command="cat greeting.txt")
LONG = call("run_command", command="echo begun > begun.txt; sleep 60")


class Acpx:
    """acpx in one project, with the sessions that it keeps."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._begin = [
            *(*command(ACPX), "--agent", f"{Path(sys.executable).with_name('holdfast')} acp"),
            *("--cwd", str(home.project), "--ttl", "1", "--timeout", str(PATIENCE)),
        ]
        node = str(Path(self._begin[0]).parent)
        environment = home.environment()
        self._environment = {**environment, "PATH": f"{node}{os.pathsep}{environment['PATH']}"}

    def start(self, *words: str, permissions: str = "--approve-all") -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self._begin, permissions, *words],
            env=self._environment,
            cwd=self.home.project,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, permissions: str = "--approve-all") -> str:
        tries = 0
        while True:
            tries += 1
            process = self.start(*words, permissions=permissions)
            out, errors = process.communicate(timeout=PATIENCE)
            if process.returncode in (0, PERMISSION_DENIED):
                return out
            if tries == TRIES or not any(each in errors for each in OWN_QUEUE):
                raise AssertionError(f"exit code {process.returncode}: {out[-300:]} {errors[-300:]}")
            self.settle()

    def settle(self) -> None:
        """Wait until nothing of acpx runs here any more: the next step is a new process that loads."""
        until(lambda: not self.processes(), "the end of acpx")

    def script(self, entries: list[Any]) -> None:
        """What the model answers next; an agent reads it when it starts, so none may be left."""
        self.settle()
        self.home.script(entries)

    def agents(self) -> list[psutil.Process]:
        """The processes of `holdfast acp`."""
        return [each for each in self.processes() if each.cmdline()[-1:] == ["acp"]]

    def processes(self) -> list[psutil.Process]:
        """Everything that acpx has started here: its queue, and the agent."""
        found = []
        for each in psutil.process_iter():
            try:
                mine = each.environ().get("HOME") == str(self.home.folder)
                if mine and each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
            except (psutil.Error, OSError):
                continue
        return found


def until(holds: Callable[[], bool], what: str) -> None:
    clock = SystemClock()
    deadline = clock.monotonic() + PATIENCE
    while not holds():
        if clock.monotonic() > deadline:
            raise AssertionError(f"{what} never came")


def require(holds: bool, found: object) -> None:
    if not holds:
        raise AssertionError(str(found)[-500:])


def new_session(acpx: Acpx) -> str:
    acpx.run("sessions", "new")
    return "a session is opened"


def work(acpx: Acpx) -> str:
    acpx.script([WRITE, EDIT, SHOW, "All done."])
    out = acpx.run("--format", "json", "prompt", "greet")
    file = acpx.home.project / "greeting.txt"
    require(file.read_text() == "hello\n", file.read_text())
    events = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    updates = [each["params"]["update"] for each in events if each.get("method") == "session/update"]
    said = "".join(
        each["content"]["text"] for each in updates if each["sessionUpdate"] == "agent_message_chunk"
    )
    require(said == "All done.", said)
    kinds = [each["kind"] for each in updates if each["sessionUpdate"] == "tool_call"]
    require(kinds == ["edit", "edit", "execute"], kinds)
    require(out.count('"type":"diff"') >= len(("write", "edit")), out)
    asked = {each.get("method") for each in events}
    used = sorted(asked & {"fs/read_text_file", "fs/write_text_file", "terminal/create"})
    require("session/request_permission" in asked, asked)
    through = f", through acpx's {', '.join(f'`{each}`' for each in used)}" if used else ""
    return f"the file is written and edited{through}; two differences; the command is asked about and run"


def refused(acpx: Acpx) -> str:
    acpx.script([call("run_command", command="touch never.txt"), "I could not."])
    out = acpx.run("prompt", "make it", permissions="--deny-all")
    require("I could not." in out and not (acpx.home.project / "never.txt").exists(), out)
    return "`--deny-all`: the command is not run, and the turn goes on"


def cancelled(acpx: Acpx) -> str:
    acpx.script([LONG])
    begun = acpx.home.project / "begun.txt"
    waiting = acpx.start("prompt", "wait")
    until(begun.exists, "the command")
    acpx.run("cancel")
    out, errors = waiting.communicate(timeout=PATIENCE)
    begun.unlink()
    require("cancel" in (out + errors).lower(), out + errors)
    require(not _open_turns(acpx.home), "a turn is left open")
    return "the turn ends as cancelled, and its command with it"


def listed(acpx: Acpx) -> str:
    out = acpx.run("--format", "json", "sessions", "list")
    with SessionDB(acpx.home.database) as db:
        (conversation,) = db.conversations.list()
    require(conversation.root_id in out, out)
    return "`session/list` has the conversation"


def killed(acpx: Acpx) -> str:
    acpx.script([LONG])
    waiting = acpx.start("prompt", "wait again")
    begun = acpx.home.project / "begun.txt"
    until(begun.exists, "the command")
    for each in acpx.agents():
        each.kill()
    waiting.communicate(timeout=PATIENCE)
    require(len(_open_turns(acpx.home)) == 1, "no turn was cut off")
    acpx.script(["I go on."])
    out = acpx.run("prompt", "/continue")
    require("I go on." in out, out)
    said = acpx.home.said()
    require(said == ["greet", "make it", "wait", "wait again"], said)
    return "the next prompt loads the session; `/continue` ends the turn; each message is on record once"


def _open_turns(home: Home) -> list[Any]:
    with SessionDB(home.database) as db:
        return list(db.turns.unfinished())


STEPS: tuple[tuple[str, Callable[[Acpx], str]], ...] = (
    ("new", new_session),
    ("prompt, tools with permission, differences", work),
    ("a permission that is refused, in a loaded session", refused),
    ("cancel", cancelled),
    ("list", listed),
    ("`kill -9` of the agent in the middle of a turn, and load", killed),
)


def played() -> str:
    """The steps, as the table of the document."""
    rows = [f"{ACPX.label}:", "", "| step | what was seen |", "|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder))
        home.settings |= {"HOLDFAST_MEMORY_PROVIDERS": "", "HOLDFAST_TOOLS_SANDBOX": "off"}
        acpx = Acpx(home)
        for name, step in STEPS:
            try:
                seen = step(acpx)
            except Exception as problem:  # noqa: BLE001 - the table says what it was
                seen = f"**failed**: {' '.join(f'{type(problem).__name__}: {problem}'.split())[:300]}"
            rows.append(f"| {name} | {seen.replace('|', ' ')} |")
            print(rows[-1], file=sys.stderr)
        for each in acpx.processes():
            each.kill()
    return "\n".join(rows)


def main() -> int:
    table = played()
    if "--write" in sys.argv[1:]:
        PAGE.write_text(between(PAGE.read_text(encoding="utf-8"), MARK, table), encoding="utf-8")
    print(table)
    return 1 if "**failed**" in table else 0


if __name__ == "__main__":
    sys.exit(main())
