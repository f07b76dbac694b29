"""Plays one long conversation over real HTTP and writes down what happened: `docs/end-to-end.md`.

The model is the scripted server on loopback; everything else is the real thing: the host as the settings
build it, the `openai` SDK, SQLite, commands in process groups. `python -m tools.recorded_run` prints the
record; the tests run the same scenario and look at what it left behind.
"""

import json
import tempfile
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.core.clock import SystemClock
from holdfast.core.errors import ModelBusy, StreamBroken
from holdfast.core.events import (
    ApprovalAsked,
    CompactionFinished,
    DelegateFinished,
    DelegateStarted,
    Event,
    ModelRetrying,
    Notice,
    SessionRotated,
    TextDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnCompleted,
    TurnFailed,
    TurnInterrupted,
    TurnStarted,
)
from holdfast.process import run
from holdfast.testing.scripted_model import Call, Entry, Tokens
from holdfast.testing.scripted_server import ScriptedServer
from holdfast.wiring import load_settings
from holdfast.wiring.settings_host import Host

ENDS = (TurnCompleted, TurnInterrupted, TurnFailed)
WINDOW = 20_000
LONGEST_LINE = 110


@dataclass
class Record:
    """What happened, in order, and when since the scenario began."""

    began: float
    lines: list[str] = field(default_factory=list)
    events: list[tuple[float, Event]] = field(default_factory=list)

    def note(self, event: Event, now: float) -> None:
        self.events.append((now - self.began, event))
        said = _said(event)
        if said and not (isinstance(event, TextDelta) and self._goes_on(event)):
            self.lines.append(f"{now - self.began:6.2f} s  {said}")

    def _goes_on(self, event: TextDelta) -> bool:
        """Pieces of one answer stand on one line."""
        previous = self.events[-2][1] if len(self.events) > 1 else None
        if not isinstance(previous, TextDelta) or previous.turn_id != event.turn_id:
            return False
        if len(self.lines[-1]) < LONGEST_LINE:
            self.lines[-1] += event.text.replace("\n", " ")
        return True

    def at(self, kind: type[Event]) -> float:
        """When the last event of a kind happened."""
        return [when for when, event in self.events if isinstance(event, kind)][-1]

    def of(self, kind: type[Event]) -> list[Event]:
        return [event for _, event in self.events if isinstance(event, kind)]


def script(workspace: Path) -> list[Entry]:
    """The model's side: one entry is one answer."""
    note = str(workspace / "note.txt")
    return [
        # parallel tools
        [
            "I look at both.",
            Call("write_file", {"path": note, "text": "three keys\n"}),
            Call("run_command", {"command": "echo hello; echo world"}),
            Tokens(1000, 40),
        ],
        ["Both are done.", Tokens(1200, 10)],
        # a rate limit, then a stream that breaks in the middle
        ModelBusy("scripted", "slow down", retry_after=0.2),
        ["This answer will bre", StreamBroken("scripted", "gone")],
        ["This answer is whole. " * 2500, Tokens(1500, 14_000)],
        # delegation
        [
            Call("delegate", {"tasks": [{"task": "count the keys"}, {"task": "name the colours"}]}),
            Tokens(1700, 30),
        ],
        _subagent,
        _subagent,
        ["Three keys, two colours.", Tokens(17_000, 10)],
        # compaction: the whole answer has nearly filled the window
        "## Facts\nThere are three keys and two colours.",
        ["I still know: three keys.", Tokens(900, 10)],
        # an interrupt
        [Call("run_command", {"command": "sleep 120", "seconds": 300})],
        ["Stopped; here is the short answer.", Tokens(1100, 10)],
    ]


def _subagent(request: object) -> str:
    """Two subagents ask at once, in either order; each is told apart by its task."""
    return "There are 3 keys." if "count the keys" in str(request) else "Red and blue."


async def scenario(folder: Path, now: Callable[[], float]) -> Record:
    """The conversation, from the first message to the answer after the interrupt."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True)
    async with ScriptedServer(script(workspace), context_window=WINDOW) as server:
        settings = load_settings(
            {
                "HOLDFAST_STORE_URL": f"sqlite:///{folder}/holdfast.db",
                "HOLDFAST_MODEL_BASE_URL": server.base_url,
                "HOLDFAST_MODEL_CONTEXT_WINDOW": str(WINDOW),
                "HOLDFAST_MEMORY_PROVIDERS": "",
                "HOLDFAST_TOOLS_WORKSPACE": str(workspace),
                "HOLDFAST_TOOLS_ALLOW": json.dumps(["command:echo *", "command:sleep *"]),
            }
        )
        record = Record(now())
        async with Host(settings, source="record") as host:
            for text in ("Look at both things.", "Say it whole.", "Count and name.", "What do you know?"):
                await _turn(host, record, text, now)
            await _interrupted(host, record, now)
    return record


async def _turn(host: Host, record: Record, text: str, now: Callable[[], float]) -> None:
    accepted = await host.send("record", text)
    async with aclosing(host.events("record", after=_number(host))) as events:
        async for numbered in events:
            record.note(numbered.event, now())
            if isinstance(numbered.event, ApprovalAsked):
                await host.approve("record", numbered.event.ask_id, "yes")
            if isinstance(numbered.event, ENDS) and numbered.event.turn_id:
                return
    raise AssertionError(f"message {accepted.inbox_id} was never answered")


def _number(host: Host) -> int:
    """Where the stream stood before the message that was just sent."""
    (conversation,) = host._conversations.opened.values()  # noqa: SLF001
    return conversation.stream.number - 1


async def _interrupted(host: Host, record: Record, now: Callable[[], float]) -> None:
    await host.send("record", "Take your time.")
    ends = 0
    async with aclosing(host.events("record", after=_number(host))) as events:
        async for numbered in events:
            record.note(numbered.event, now())
            if isinstance(numbered.event, ApprovalAsked):
                await host.approve("record", numbered.event.ask_id, "yes")
            if isinstance(numbered.event, ToolStarted):
                await host.send("record", "No, the short answer.", "interrupt")
            ends += isinstance(numbered.event, ENDS)
            if ends == 2:  # noqa: PLR2004 - the interrupted turn's, and that of the message which did it
                return


def leftovers() -> list[str]:
    """Processes of the interrupted command that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            if entry.read_bytes().split(b"\0")[:2] == [b"sleep", b"120"]:
                found.append(str(entry))
    return found


def _said(event: Event) -> str:  # noqa: C901, PLR0912 - one line for each kind of event
    match event:
        case TurnStarted():
            return f"**person**: {event.text}"
        case TextDelta():
            return f"agent: {event.text}"
        case ToolStarted():
            return f"tool `{event.name}` {event.arguments}"
        case ToolOutput():
            return f"live output: {event.text.strip()!r}"
        case ToolFinished():
            return f"tool `{event.name}` {'done' if event.ok else 'failed'}: {event.output.strip()[:120]!r}"
        case ModelRetrying():
            kept = "; the partial text is kept on record" if event.partial else ""
            return f"asking again in {event.delay:.1f} s: {event.problem}{kept}"
        case DelegateStarted():
            return f"subagent begins: {event.task}"
        case DelegateFinished():
            return f"subagent {'done' if event.ok else 'failed'}"
        case SessionRotated():
            return "the conversation goes on in a child session"
        case CompactionFinished():
            return f"compaction: {event.outcome} ({event.tokens_before} to {event.tokens_after} tokens)"
        case TurnInterrupted():
            return f"turn interrupted: {event.reason}"
        case TurnCompleted():
            return "turn completed"
        case TurnFailed():
            return f"turn failed: {event.error}"
        case Notice():
            return f"notice: {event.text}"
        case _:
            return ""


def main() -> None:
    """Print the record."""
    with tempfile.TemporaryDirectory() as folder:
        record = run(scenario(Path(folder), SystemClock().monotonic))
    print("# A recorded run\n")
    print("Made by `python -m tools.recorded_run`: a scripted model over real HTTP, everything else real.\n")
    print("```text")
    print("\n".join(line.replace(folder, "FOLDER") for line in record.lines))
    print("```")
    print(f"\nProcesses of the interrupted command left behind: {len(leftovers())}.")


if __name__ == "__main__":
    main()
