"""Draws the way of one message from a turn that really runs, into two pages of docs/.

A host with a scripted model and one memory provider gets one message in a new session. A reader waits for the
answer, then for the delivery of the turn to the provider. Meanwhile every call between packages is
noted. `python -m tools.message_path` writes the page; a test runs the same turn and compares.
"""

import asyncio
import inspect
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType

import holdfast
from holdfast.agent import AgentOptions, Pools, SessionAgent
from holdfast.agent.scope_policy import AgentScope
from holdfast.core.clock import SystemClock
from holdfast.core.events import TurnCompleted
from holdfast.host import HostOptions, HostParts, SessionHost
from holdfast.memory import MemoryManager, SessionLifecycle
from holdfast.models.retrying_model import RetryingModel
from holdfast.process import off_loop, run
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.providers import RecordingProvider
from holdfast.tools.open_questions import OpenQuestions
from tools.diagrams import between_marks

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "internals" / "way-of-a-message.md"
ARCHITECTURE = DOCS / "architecture.md"
MARK = "way"
SOURCE = Path(holdfast.__file__).parent
SURFACE = "surface"
PIECES = 20
DEADLINE = 30.0
ANSWER: list[str | float] = ["word ", 0] * PIECES
STAND_INS = {"testing/scripted_model.py": "models", "testing/providers.py": "providers"}
BY_TIME = {
    "LiveText.is_read_elsewhere",
    "LiveText.notice_readers",
    "Outbox.next_due",
    "SessionDB.run(save_partial)",
}
"""What happens only when time passes: a slow answer is saved in part and sent to readers elsewhere, an idle
lane looks when to wake."""
SHARED = ("core", "process")
"""Packages that every other one uses for data, time and threads: that is no step of a message's way."""

HEAD = """# The way of one message

A surface sends a message to a new session and reads the events until the answer is complete. Then the turn is
delivered to a memory provider. Each row is a call between packages, listed once, where it happens
first: {answer} until the conversation is at rest, and {delivery} for the delivery. `SessionDB.run` runs each
change of the store as one transaction; the operation's name and file are given. Left out are `core`,
`process` and the data in each `contract.py`, which all packages use, reads of an attribute, checks for
interrupts from other processes, and what happens only when time passes (a slow answer is saved in part).
The scripted model and the recording provider stand for real ones.

A piece of the answer's text passes {generators} async generators: {names}.

[The architecture](../architecture.md) has the same calls as a picture. `python -m tools.message_path` makes
both from a turn that runs; a test runs it again and compares.

"""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A call from one package into another."""

    source: str
    target: str
    function: str
    file: str
    what: str
    """What the function does, by its docstring."""
    is_delivery: bool
    """Made by a provider's write lane, after the answer."""


@dataclass
class Recording:
    """What is noted while a turn runs."""

    is_on: bool = False
    delivered: threading.Event = field(default_factory=threading.Event)
    rested: threading.Event = field(default_factory=threading.Event)
    """The host has let the conversation go, and marked its turn for the next boundary."""
    crossings: dict[Crossing, None] = field(default_factory=dict)
    resumed: dict[str, int] = field(default_factory=dict)
    """How often each async generator of a package ran."""

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """As `sys.setprofile` calls it."""
        if event != "call" or not self.is_on:
            return
        package, name = package_of(frame.f_code), frame.f_code.co_qualname
        if package is None or package in (SURFACE, *SHARED) or _is_property(frame):
            return
        is_delivery = threading.current_thread().name.startswith("memory-write")
        if is_delivery and self.delivered.is_set():
            return  # the lane looks for its next turn
        file, called = _file(frame.f_code) or "", _function(frame)
        if name == "SessionDB.run":
            operation = frame.f_locals["operation"]
            name += f"({operation.__name__})"
            file = operation.__module__.removeprefix("holdfast.").replace(".", "/") + ".py"
            called = getattr(sys.modules[operation.__module__], operation.__name__)
        if frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR:
            self.resumed[name] = self.resumed.get(name, 0) + 1
        source = _caller(frame)
        if source is not None and source != package and name not in BY_TIME:
            crossing = Crossing(source, package, name, file, _first_sentence(called), is_delivery)
            self.crossings.setdefault(crossing)
        if name == "Outbox.mark_delivered":
            self.delivered.set()
        elif name == "SessionLifecycle.mark_stored_turn":
            self.rested.set()

    @property
    def generators(self) -> list[str]:
        """The async generators that each piece of text passes."""
        return sorted(name for name, times in self.resumed.items() if times >= PIECES)


def _is_property(frame: FrameType) -> bool:
    """Whether an attribute of an object is read: that is no step."""
    owner = type(frame.f_locals.get("self"))
    return isinstance(getattr(owner, frame.f_code.co_name, None), property)


def _function(frame: FrameType) -> object:
    """The function that runs in a frame; of an object that is made, its class."""
    owner = frame.f_locals.get("self")
    if owner is None:
        return frame.f_globals.get(frame.f_code.co_name)
    name = frame.f_code.co_name
    return type(owner) if name == "__init__" else getattr(type(owner), name, None)


def _first_sentence(documented: object) -> str:
    text = " ".join(((inspect.getdoc(documented) if documented else None) or "").split())
    return re.split(r"(?<=[.;])\s", text)[0].rstrip(".;")


def package_of(code: CodeType) -> str | None:
    """The package whose code this is; the function that sends and reads is a surface. None for other code."""
    if code is _send_and_read.__code__:
        return SURFACE
    file = _file(code)
    if file is None or file.endswith("/contract.py"):
        return None
    return STAND_INS.get(file) or file.partition("/")[0]


def _file(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    return path.relative_to(SOURCE).as_posix() if path.is_relative_to(SOURCE) else None


def _caller(frame: FrameType) -> str | None:
    """The package that called, past the shared ones and code that is not ours; None where a task begins."""
    before = frame.f_back
    while before is not None:
        package = package_of(before.f_code)
        if package is not None and package not in SHARED:
            return package
        before = before.f_back
    return None


def record() -> Recording:
    """Run one turn and note what it does."""
    recording = Recording()
    with tempfile.TemporaryDirectory() as folder, _profiled(recording):
        run(_turn(Path(folder), recording))
    return recording


@contextmanager
def _profiled(recording: Recording) -> Iterator[None]:
    threading.setprofile(recording.note)  # for the threads that begin from now on
    sys.setprofile(recording.note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


async def _turn(folder: Path, recording: Recording) -> None:
    pools = Pools()
    with SessionDB(folder / "holdfast.db") as db:
        model = RetryingModel(ScriptedModel([ANSWER]), SystemClock())

        provider, memory = RecordingProvider("notes"), MemoryManager(db)
        memory.add_provider(provider)

        def make_agent(session_id: str, _: OpenQuestions, scope: AgentScope) -> SessionAgent:
            own = AgentOptions(workspace=folder, pools=pools, scope=scope)
            return SessionAgent(model, db, session_id, memory, options=own)

        # Nobody looks for what other processes do while the turn runs: that would come by chance.
        options = HostOptions(poll_seconds=DEADLINE)
        parts = HostParts(db, memory, SessionLifecycle(db), make_agent, pools, options)
        async with SessionHost(parts) as host:
            session_id = await host.new_session()
            while (await host.overview.status()).recovering:
                pass
            async with asyncio.timeout(DEADLINE):
                await _send_and_read(host, session_id, recording)
                for last in (recording.rested, recording.delivered):
                    await off_loop(pools.work, last.wait)
            recording.is_on = False


async def _send_and_read(host: SessionHost, session_id: str, recording: Recording) -> None:
    """What a surface does."""
    recording.is_on = True
    await host.send(session_id, "hello")
    async for numbered in host.events(session_id, after=0):
        if isinstance(numbered.event, TurnCompleted):
            return


def page(recording: Recording) -> str:
    """The page: the calls, and the files they are in."""
    names = ", ".join(f"`{name}`" for name in recording.generators)
    delivery = sum(each.is_delivery for each in recording.crossings)
    answer = len(recording.crossings) - delivery
    head = HEAD.format(answer=answer, delivery=delivery, generators=len(recording.generators), names=names)
    return head + "\n".join([*table(recording), ""])


def picture(recording: Recording) -> str:
    """The calls as a diagram."""
    packages = dict.fromkeys(
        package for each in recording.crossings for package in (each.source, each.target)
    )
    arrows = [f"    {each.source}->>{each.target}: {_plain(each.function)}" for each in recording.crossings]
    participants = [f"    participant {package}" for package in packages]
    return "\n".join(["```mermaid", "sequenceDiagram", *participants, *arrows, "```"])


def table(recording: Recording) -> list[str]:
    """The calls as the lines of a table."""
    calls = recording.crossings
    lines = [
        f"| {each.source} | {each.target} | `{each.function}` | {each.what} | `{each.file}` |"
        for each in calls
    ]
    return ["| from | to | function | what it does | file |", "|---|---|---|---|---|", *lines]


def _plain(function: str) -> str:
    """A name that a diagram can show."""
    return (
        function.replace(".<locals>", "")
        .replace("<lambda>", "lambda")
        .replace("RecordingProvider", "provider")
    )


def main() -> int:
    PAGE.parent.mkdir(exist_ok=True)
    recording = record()
    PAGE.write_text(page(recording), encoding="utf-8")
    drawn = between_marks(ARCHITECTURE.read_text(encoding="utf-8"), MARK, picture(recording))
    ARCHITECTURE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
