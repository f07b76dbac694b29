"""A real terminal for tests: the command on a PTY, with a script for a model and folders of its own."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pexpect

from holdfast import SessionDB
from holdfast.core.clock import SystemClock
from tests.cli.forked_command import run_forked
from tests.cli.terminal_screen import TerminalScreen

PATIENCE = 90
"""Seconds that a test waits for what must come; generous, since it costs nothing when it comes."""
COMMAND = ["-c", "from holdfast.cli.main import main; main()"]


class Home:
    """A person's folders and settings, shared by the commands of one test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project = folder / "project"
        """Where commands are started, and so the workspace."""
        self.project.mkdir(parents=True, exist_ok=True)
        self.settings: dict[str, str] = {}
        self.script([])

    def script(self, entries: Sequence[Any]) -> None:
        """What the model answers, from the next start on."""
        (self.folder / "script.json").write_text(json.dumps(entries), encoding="utf-8")

    @property
    def database(self) -> Path:
        return self.folder / "data" / "holdfast.db"

    def environment(self, **more: str) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "NO_COLOR", "XDG_"))
        }
        folders: Mapping[str, str] = {
            "HOME": str(self.folder),
            **{f"XDG_{kind}_HOME": str(self.folder / kind.lower()) for kind in ("DATA", "CONFIG", "STATE")},
        }
        return {
            **kept,
            **folders,
            "TERM": "xterm-256color",
            "HOLDFAST_MODEL_PROVIDER": "scripted",
            "HOLDFAST_MODEL_NAME": str(self.folder / "script.json"),
            "HOLDFAST_STORE_URL": f"sqlite:///{self.database}",
            "HOLDFAST_EXIT_WATCHDOG_S": "20",
            **self.settings,
            **more,
        }

    def said(self) -> list[str]:
        """What the person said, in all conversations, oldest first."""
        with SessionDB(self.database) as db:
            ids = [
                each for listed in db.conversations.list() for each in db.sessions.lineage(listed.session.id)
            ]
            stored = [each for session_id in ids for each in db.sessions.read(session_id)]
        # A summary that begins a continuation is in no turn.
        users = [
            each for each in stored if each.message["role"] == "user" and each.turn_id and not each.carried
        ]
        return [str(each.message.get("content")) for each in sorted(users, key=lambda each: each.created)]

    def terminal(self, *arguments: str, columns: int = 80, rows: int = 24, **more: str) -> "Terminal":
        """Start a command on a terminal of its own."""
        return Terminal(arguments, self.environment(**more), self.project, (rows, columns))


def run(home: Home, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without a terminal."""
    return run_forked(arguments, home.environment(), home.project, given, PATIENCE)


class Terminal:
    """One command on one PTY, and what a person sees of it."""

    def __init__(
        self, arguments: Sequence[str], environment: dict[str, str], folder: Path, size: tuple[int, int]
    ) -> None:
        self.screen = TerminalScreen(*size)
        self.raw = ""
        self.process = pexpect.spawn(
            sys.executable,
            [*COMMAND, *arguments],
            env=environment,
            cwd=str(folder),
            dimensions=size,
            encoding="utf-8",
            timeout=PATIENCE,
            echo=False,
        )
        self.process.delaybeforesend = None

    def see(self, *texts: str) -> None:
        """Wait until the texts are shown, one below another; line breaks count as spaces."""
        wanted = [" ".join(text.split()) for text in texts]
        deadline = SystemClock().monotonic() + PATIENCE
        while not _in_order(wanted, " ".join(self.screen.shown().split())):
            if SystemClock().monotonic() > deadline or not self._read():
                raise AssertionError(f"{wanted} is not shown:\n{self.screen.shown()}")

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that is not on the screen."""
        deadline = SystemClock().monotonic() + PATIENCE
        while not condition():
            if SystemClock().monotonic() > deadline or not self._read():
                raise AssertionError(f"the condition never came true:\n{self.screen.shown()}")

    def _read(self) -> bool:
        """Take in what was written; False at the end."""
        try:
            piece = self.process.read_nonblocking(65_536, timeout=1)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += piece
        self.screen.feed(piece)
        while self.screen.answers:
            self.process.send(self.screen.answers.pop(0))
        return True

    def type(self, text: str) -> None:
        self.process.send(text + "\r")

    def key(self, text: str) -> None:
        self.process.send(text)

    def paste(self, text: str) -> None:
        """Paste as a terminal does, reading meanwhile: it would be full otherwise."""
        whole = f"\x1b[200~{text}\x1b[201~"
        for start in range(0, len(whole), 2_000):
            self.process.send(whole[start : start + 2_000])
            while self.process.child_fd in select.select([self.process.child_fd], [], [], 0)[0]:
                self._read()

    def resize(self, rows: int, columns: int, *, wraps: bool = False) -> None:
        """Another size of the window; returns once the program has begun to draw for it."""
        while self.process.child_fd in select.select([self.process.child_fd], [], [], 0)[0]:
            self._read()
        before = len(self.raw)
        self.screen.resize(rows, columns, wraps=wraps)
        self.process.setwinsize(rows, columns)
        self.until(lambda: len(self.raw) > before)

    def leave(self) -> int:
        """Ctrl-D, and the exit code."""
        self.process.sendeof()
        return self.end()

    def end(self) -> int:
        while self._read():
            pass
        self.process.close()
        code = self.process.exitstatus
        assert code is not None, f"ended by signal {self.process.signalstatus}:\n{self.screen.shown()}"
        return int(code)

    def kill(self) -> None:
        self.process.kill(9)
        while self._read():
            pass
        self.process.close()


def _in_order(wanted: list[str], shown: str) -> bool:
    place = 0
    for text in wanted:
        place = shown.find(text, place)
        if place < 0:
            return False
        place += len(text)
    return True
