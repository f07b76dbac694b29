"""Draws the state machines of `core/states.py` into the documents, between two marks.

`python -m tools.diagrams` writes the pages; with `--check` it only says whether they are up to date.
"""

import sys
from collections.abc import Callable
from pathlib import Path

from holdfast.core.states import DELIVERY, INBOX, MACHINES, TURN, StateMachine

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARK = "states"


def between_marks(page: str, mark: str, drawn: str) -> str:
    """The page with `drawn` between its two marks."""
    begin, end = f"<!-- {mark}:begin -->\n", f"<!-- {mark}:end -->"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{drawn}\n\n{end}{after}"


def _arrows(machine: StateMachine) -> list[str]:
    lines = [f"[*] --> {machine.start}"]
    lines += [f"{source} --> {target}: {event}" for (source, event), target in machine.transitions.items()]
    lines += [f"any_state --> {target}: {event}" for event, target in machine.always.items()]
    return [*lines, *(f"{state} --> [*]" for state in machine.final)]


def _mermaid(lines: list[str]) -> str:
    return "\n".join(["```mermaid", "stateDiagram-v2", *(f"    {line}" for line in lines), "```"])


def every_machine() -> str:
    """Each state machine as a picture of its own."""
    return "\n\n".join(f"**{each.name}**\n\n{_mermaid(_arrows(each))}" for each in MACHINES)


def a_message() -> str:
    """What a message, its turn and its deliveries pass through, in one picture."""
    lines = []
    for each in (INBOX, TURN, DELIVERY):
        lines += [f"state {each.name} {{", *(f"    {line}" for line in _arrows(each)), "}"]
    lines += ["inbox --> turn: a turn takes it", "turn --> delivery: completed"]
    return _mermaid(lines)


PAGES: dict[Path, Callable[[], str]] = {
    DOCS / "architecture.md": a_message,
    DOCS / "internals" / "states.md": every_machine,
}


def outdated() -> dict[Path, str]:
    """The pages whose pictures differ from the code, as they should be."""
    pages = {path: path.read_text(encoding="utf-8") for path in PAGES}
    drawn = {path: between_marks(text, MARK, PAGES[path]()) for path, text in pages.items()}
    return {path: text for path, text in drawn.items() if text != pages[path]}


def main() -> int:
    pages = outdated()
    if "--check" in sys.argv[1:]:
        return 1 if pages else 0
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
