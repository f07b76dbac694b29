"""The lines around the input: what runs and waits above it, the status below it."""

from dataclasses import dataclass

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text

from holdfast.cli.terminal.open_line import most_rows
from holdfast.cli.terminal.screen import Screen
from holdfast.cli.terminal.tool_cards import live_lines
from holdfast.cli.terminal.view import TerminalView
from holdfast.core.clean_text import clean, one_line
from holdfast.core.events import ApprovalAsked

SHOWN_WAITING = 3
SHOWN_TOOLS = 4
SHOWN_THOUGHT = 2
INPUT_ROWS = 5
"""Rows for the input with its list of commands, and for the status line."""
THOUSAND = 1_000
WORDS = {"queue": "queued", "steer": "steers", "interrupt": "interrupts"}
SPINNER = "⠋⠙⠸⠴⠦⠇"
SPINS_PER_SECOND = 4


@dataclass(slots=True)
class StatusInfo:
    """What the status line shows beside the turn."""

    model: str = ""
    window: int = 0
    owed: int = 0
    mode: str = "queue"
    hint: str = ""
    starting: bool = True
    """The conversations are not open yet; what is typed waits."""
    loading: bool = False
    """A model on this machine is being loaded; it can be talked to already."""
    attached: int = 0
    """Outputs of the person's own commands that go along with the next message."""
    spinner: bool = True


def prompt_lines(screen: Screen, view: TerminalView, now: float) -> StyleAndTextTuples:
    """The open line, running tools and waiting messages, then the prompt's mark."""
    width = screen.width - 1
    lines = [one_line(line, width, squeeze=False) for line in _thought(view, width)]
    running = list(view.tools.values())[-SHOWN_TOOLS:]
    for tool in running:
        alone = len(running) == 1 and screen.height > 2 * INPUT_ROWS
        lines += [one_line(line, width, squeeze=False) for line in live_lines(tool, now, width, alone=alone)]
    waiting = list(view.waiting.values())
    for mode, text in waiting[:SHOWN_WAITING]:
        lines.append(one_line(f"{WORDS.get(mode, mode)}: {text}", width))
    if len(waiting) > SHOWN_WAITING:
        lines.append(f"and {len(waiting) - SHOWN_WAITING} more")
    room = max(1, screen.height - INPUT_ROWS)
    shown: StyleAndTextTuples = [("class:live", f"{line}\n") for line in lines[-room:]]
    shown = [*_open_line(screen, view, len(shown)), *shown]
    if view.ask is None:
        shown.append(("class:you", "> "))
    elif isinstance(view.ask, ApprovalAsked):
        shown.append(("class:ask", f"{answers(view.ask)} > "))
    else:
        shown.append(("class:ask", "answer > "))
    return shown


def _thought(view: TerminalView, width: int) -> list[str]:
    """The end of the reasoning while it streams."""
    text = " ".join(clean(view.reasoning[-4 * SHOWN_THOUGHT * width :]).split())
    if not text:
        return []
    room = SHOWN_THOUGHT * (width - 2)
    end = text if len(text) <= room else f"…{text[1 - room :]}"
    return [f"∴ {end[: width - 2]}", *([f"  {end[width - 2 :]}"] if len(end) > width - 2 else [])]


def _open_line(screen: Screen, view: TerminalView, others: int) -> StyleAndTextTuples:
    """The end of the open line, as many rows as leave room for the other lines and for the prompt."""
    rows = view.line.rows()
    room = max(1, min(most_rows(screen.height), screen.height - others - INPUT_ROWS))
    return [fragment for row in rows[-room:] for fragment in (*to_formatted_text(ANSI(row)), ("", "\n"))]


def answers(asked: ApprovalAsked) -> str:
    """The answers that an approval takes."""
    return "y, n or always" if "always" in asked.decisions else "y or n"


def status_text(info: StatusInfo, view: TerminalView, width: int, now: float = 0.0) -> str:
    """The status in one line; the least important parts are dropped first."""
    if info.hint:
        return one_line(f" {info.hint}", width)
    window = view.window or info.window
    parts = [
        (0, _doing(info, view, now)),
        (3, f"{info.model}, loading" if info.loading else info.model),
        (4, f"{_tokens(view.context)}/{_tokens(window)}" if window and view.context else ""),
        (1, f"{info.owed} owed to memory" if info.owed else ""),
        (1, f"{len(view.waiting)} waiting" if view.waiting else ""),
        (1, f"{info.attached} output goes along" if info.attached else ""),
        (5, f"mode: {info.mode}" if info.mode != "queue" else ""),
        (6, "Esc interrupts" if view.is_busy or view.tools else "/help"),
    ]
    kept = [part for part in parts if part[1]]
    while len(kept) > 1 and len(_joined(kept)) > width:
        kept.remove(max(kept, key=lambda part: part[0]))
    return one_line(_joined(kept), width)


def _doing(info: StatusInfo, view: TerminalView, now: float) -> str:
    if view.ask is not None:
        return "waits for you"
    if view.is_busy:
        sign = f"{SPINNER[int(now * SPINS_PER_SECOND) % len(SPINNER)]} " if info.spinner else ""
        return f"{sign}{view.doing or 'working'} {view.elapsed()} s"
    if view.elsewhere:
        return "runs elsewhere"
    return "starting" if info.starting else "ready"


def _joined(parts: list[tuple[int, str]]) -> str:
    return " " + " · ".join(text for _, text in parts)


def _tokens(number: int) -> str:
    if number < THOUSAND:
        return str(number)
    return f"{number / THOUSAND:.0f}k" if number >= 10 * THOUSAND else f"{number / THOUSAND:.1f}k"
