"""The lines around the input: what still changes above it, how things stand below it."""

from dataclasses import dataclass

from prompt_toolkit.formatted_text import StyleAndTextTuples

from holdfast.cli.clean_text import one_line
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.view import TurnView
from holdfast.core.events import ApprovalAsked

SHOWN_WAITING = 3
SHOWN_TOOLS = 4
THOUSAND = 1_000
WORDS = {"queue": "queued", "steer": "steers", "interrupt": "interrupts"}


@dataclass(slots=True)
class Standing:
    """What the status line knows beside the turn."""

    model: str = ""
    window: int = 0
    owed: int = 0
    mode: str = "queue"
    hint: str = ""


def prompt_lines(screen: Screen, view: TurnView, now: float) -> StyleAndTextTuples:
    """The open line, running tools and waiting messages, then the mark where a person types."""
    width = screen.width - 1
    shown: StyleAndTextTuples = []
    if screen.tail:
        shown.append(("", f"{screen.tail}\n"))
    for tool in list(view.tools.values())[-SHOWN_TOOLS:]:
        spent = int(now - tool.began)
        head = f"⋯ {tool.name} {tool.summary}"
        # What it said last matters more than the whole of what it was called with.
        line = f"{one_line(head, width // 2)} │ {tool.last}" if tool.last else head
        shown.append(("class:live", one_line(line, width - 7) + f" {spent} s\n"))
    waiting = list(view.waiting.values())
    for mode, text in waiting[:SHOWN_WAITING]:
        label = WORDS.get(mode, mode)
        shown.append(("class:live", one_line(f"{label}: {text}", width) + "\n"))
    if len(waiting) > SHOWN_WAITING:
        shown.append(("class:live", f"and {len(waiting) - SHOWN_WAITING} more\n"))
    if view.ask is None:
        shown.append(("class:you", "> "))
    elif isinstance(view.ask, ApprovalAsked):
        shown.append(("class:ask", "y, n or always > "))
    else:
        shown.append(("class:ask", "answer > "))
    return shown


def status_text(standing: Standing, view: TurnView, width: int) -> str:
    """How things stand, in one line; what matters least is left out first."""
    if standing.hint:
        return one_line(f" {standing.hint}", width)
    doing = ""
    if view.ask is not None:
        doing = "waits for you"
    elif view.is_busy:
        doing = f"{view.doing or 'working'} {view.elapsed()} s"
    elif view.elsewhere:
        doing = "runs elsewhere"
    window = view.window or standing.window
    parts = [
        (0, doing or "ready"),
        (3, standing.model),
        (4, f"{_tokens(view.context)}/{_tokens(window)}" if window else ""),
        (1, f"{standing.owed} owed to memory" if standing.owed else ""),
        (1, f"{len(view.waiting)} waiting" if view.waiting else ""),
        (5, f"mode: {standing.mode}" if standing.mode != "queue" else ""),
        (6, "Ctrl-C interrupts" if view.is_busy else "/help"),
    ]
    kept = [part for part in parts if part[1]]
    while len(kept) > 1 and len(_joined(kept)) > width:
        kept.remove(max(kept, key=lambda part: part[0]))
    return one_line(_joined(kept), width)


def _joined(parts: list[tuple[int, str]]) -> str:
    return " " + " · ".join(text for _, text in parts)


def _tokens(number: int) -> str:
    return f"{number / THOUSAND:.0f}k" if number >= 10 * THOUSAND else str(number)
