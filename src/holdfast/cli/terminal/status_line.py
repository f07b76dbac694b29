"""The lines around the input: running tools and waiting messages above it, the status below it."""

from dataclasses import dataclass

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from holdfast.cli.terminal.open_line import most_rows
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.view import TerminalView
from holdfast.core.clean_text import one_line
from holdfast.core.events import ApprovalAsked

SHOWN_WAITING = 3
SHOWN_TOOLS = 4
INPUT_ROWS = 5
"""Rows for the input with its list of commands, and for the status line."""
THOUSAND = 1_000
WORDS = {"queue": "queued", "steer": "steers", "interrupt": "interrupts"}


@dataclass(slots=True)
class StatusInfo:
    """What the status line shows beside the turn."""

    model: str = ""
    window: int = 0
    owed: int = 0
    mode: str = "queue"
    hint: str = ""


def prompt_lines(screen: Screen, view: TerminalView, now: float) -> StyleAndTextTuples:
    """The open line, running tools and waiting messages, then the prompt's mark."""
    width = screen.width - 1
    shown: StyleAndTextTuples = []
    for tool in list(view.tools.values())[-SHOWN_TOOLS:]:
        spent = int(now - tool.began)
        head = f"⋯ {tool.name} {tool.summary}"
        # The last line of output matters more than all the arguments.
        line = f"{one_line(head, width // 2)} │ {tool.last}" if tool.last else head
        shown.append(("class:live", one_line(line, width - 7) + f" {spent} s\n"))
    waiting = list(view.waiting.values())
    for mode, text in waiting[:SHOWN_WAITING]:
        label = WORDS.get(mode, mode)
        shown.append(("class:live", one_line(f"{label}: {text}", width) + "\n"))
    if len(waiting) > SHOWN_WAITING:
        shown.append(("class:live", f"and {len(waiting) - SHOWN_WAITING} more\n"))
    shown = [*_open_line(screen, view, len(shown)), *shown]
    if view.ask is None:
        shown.append(("class:you", "> "))
    elif isinstance(view.ask, ApprovalAsked):
        shown.append(("class:ask", f"{answers(view.ask)} > "))
    else:
        shown.append(("class:ask", "answer > "))
    return shown


def _open_line(screen: Screen, view: TerminalView, others: int) -> StyleAndTextTuples:
    """The end of the open line, as many rows as leave room for the other lines and for the prompt."""
    rows = view.line.rows()
    room = max(1, min(most_rows(screen.height), screen.height - others - INPUT_ROWS))
    return [fragment for row in rows[-room:] for fragment in (*to_formatted_text(ANSI(row)), ("", "\n"))]


def answers(asked: ApprovalAsked) -> str:
    """The answers that an approval takes."""
    return "y, n or always" if "always" in asked.decisions else "y or n"


def status_text(info: StatusInfo, view: TerminalView, width: int) -> str:
    """The status in one line; the least important parts are dropped first."""
    if info.hint:
        return one_line(f" {info.hint}", width)
    doing = ""
    if view.ask is not None:
        doing = "waits for you"
    elif view.is_busy:
        doing = f"{view.doing or 'working'} {view.elapsed()} s"
    elif view.elsewhere:
        doing = "runs elsewhere"
    window = view.window or info.window
    parts = [
        (0, doing or "ready"),
        (3, info.model),
        (4, f"{_tokens(view.context)}/{_tokens(window)}" if window and view.context else ""),
        (1, f"{info.owed} owed to memory" if info.owed else ""),
        (1, f"{len(view.waiting)} waiting" if view.waiting else ""),
        (5, f"mode: {info.mode}" if info.mode != "queue" else ""),
        (6, "Ctrl-C interrupts" if view.is_busy else "/help"),
    ]
    kept = [part for part in parts if part[1]]
    while len(kept) > 1 and len(_joined(kept)) > width:
        kept.remove(max(kept, key=lambda part: part[0]))
    return one_line(_joined(kept), width)


def _joined(parts: list[tuple[int, str]]) -> str:
    return " " + " · ".join(text for _, text in parts)


def _tokens(number: int) -> str:
    if number < THOUSAND:
        return str(number)
    return f"{number / THOUSAND:.0f}k" if number >= 10 * THOUSAND else f"{number / THOUSAND:.1f}k"
