"""Draws the state machines of `core/states.py` into docs/architecture.md, between its two marks.

`python -m tools.diagrams` writes the file; with `--check` it only says whether the file is up to date.
"""

import sys
from pathlib import Path

from holdfast.core.states import MACHINES, StateMachine

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
BEGIN, END = "<!-- states:begin -->\n", "<!-- states:end -->"


def mermaid(machine: StateMachine) -> str:
    """One state machine as a diagram."""
    lines = [f"    [*] --> {machine.start}"]
    lines += [
        f"    {source} --> {target}: {event}" for (source, event), target in machine.transitions.items()
    ]
    lines += [f"    {state} --> [*]" for state in machine.final]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"])


def with_diagrams(page: str) -> str:
    """The page with its diagrams drawn anew."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    drawn = "\n\n".join(f"**{machine.name}**\n\n{mermaid(machine)}" for machine in MACHINES)
    return f"{before}{BEGIN}\n{drawn}\n\n{END}{after}"


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    drawn = with_diagrams(page)
    if "--check" in sys.argv[1:]:
        return 0 if page == drawn else 1
    PAGE.write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
