"""The state machines, each as one table: from a state, by an event, to a state.

The store's `check` constraints and guarded updates follow these tables, and the diagrams in
`docs/architecture.md` are made from them (`python -m tools.diagrams`).
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class StateMachine:
    """States with their transitions. A state with no way out is final."""

    name: str
    start: str
    transitions: Mapping[tuple[str, str], str]

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in the order the table names them."""
        names = [self.start]
        for (source, _), target in self.transitions.items():
            names += [source, target]
        return tuple(dict.fromkeys(names))

    @property
    def final(self) -> tuple[str, ...]:
        sources = {source for source, _ in self.transitions}
        return tuple(state for state in self.states if state not in sources)


TURN = StateMachine(
    name="turn",
    start="running",
    transitions={
        ("running", "complete"): "completed",
        ("running", "interrupt"): "interrupted",
        ("running", "fail"): "failed",
    },
)

INBOX = StateMachine(
    name="inbox",
    start="waiting",
    transitions={
        ("waiting", "acknowledge"): "taken",
        ("waiting", "withdraw"): "withdrawn",
    },
)

DELIVERY = StateMachine(
    name="delivery",
    start="owed",
    transitions={
        ("owed", "claim"): "claimed",
        ("claimed", "claim again, its lease run out"): "claimed",
        ("claimed", "mark delivered"): "delivered",
        ("claimed", "defer"): "owed",
        ("claimed", "give back"): "owed",
        ("claimed", "set aside"): "set_aside",
        ("set_aside", "retry"): "owed",
        ("set_aside", "drop"): "dropped",
    },
)

ASK = StateMachine(
    name="ask",
    start="open",
    transitions={
        ("open", "answer"): "answered",
        ("open", "close"): "closed",
    },
)

MACHINES = (TURN, INBOX, ASK, DELIVERY)
