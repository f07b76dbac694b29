"""One way out of the sandbox, and whether it was one. The ways themselves are in `sandbox_attacks.py`.

A command has got out when its output has the secret or `$OUT`, or when something outside has changed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.tools.live_processes import carrying
from tests.tools.sandbox_targets import OUT, SECRET, Ground, run_in


@dataclass(frozen=True)
class Attack:
    """One way. Most are tried bare as well, where they must get out: that shows that they are real ones."""

    what: str
    command: str
    network: bool = True
    works_bare: bool = True
    """Also tried without a sandbox: it must get out there."""
    root_only: bool = False
    """Gets out bare only for root."""
    open: str = ""
    """Why it does get out, where that is so by design."""
    prepare: Callable[[Ground], None] = lambda _: None
    settings: dict[str, object] = field(default_factory=dict)
    seconds: int = 20


def got_out(attack: Attack, place: Ground, kind: str) -> str:
    """How the attack got out; empty when it was held."""
    attack.prepare(place)
    settings = {"network": attack.network, **attack.settings} if kind != "off" else {}
    said = run_in(place, attack.command, kind, attack.seconds, **settings)
    if SECRET in said:
        return "it read the secret"
    if re.search(f"^{OUT}", said, re.MULTILINE):  # at the start of a line: the variable has it too
        return "it did what it should not"
    if left := carrying(place.tag):
        return f"{len(left)} processes go on"
    return place.harmed()


def py(code: str) -> str:
    """A program as a command."""
    return f"$PY -I - <<'END'\nimport os, sys\nOUT = os.environ['OUT']\n{code}\nEND"
