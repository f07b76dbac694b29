"""Tries every known way out of the sandbox and writes the outcomes into docs/sandbox.md."""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tools.sandbox_attack import Attack, got_out
from tests.tools.sandbox_attacks import ATTACKS
from tests.tools.sandbox_targets import ground

PAGE = Path(__file__).resolve().parent.parent / "docs" / "sandbox.md"
BEGIN, END = "<!-- attacks: begin -->", "<!-- attacks: end -->"


def tried(attack: Attack) -> str:
    with ground() as place:
        out = got_out(attack, place, "bubblewrap")
    if not out:
        return "held"
    return f"**open**: {attack.open}" if attack.open else f"**got out**: {out}"


def table() -> Iterator[str]:
    yield "| | way out | outcome |\n|---|---|---|"
    number = 0
    for heading, attacks in ATTACKS:
        for attack in attacks:
            number += 1
            outcome = tried(attack)
            print(f"{number}. {heading}: {attack.what}: {outcome}", file=sys.stderr, flush=True)
            yield f"| {number} | {heading}: {attack.what} | {outcome} |"


def main() -> int:
    rows = "\n".join(table())
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{rows}\n{END}{after}", encoding="utf-8")
    return 1 if "got out" in rows else 0


if __name__ == "__main__":
    sys.exit(main())
