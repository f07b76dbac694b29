"""The state machines, each as one table: from a state, by an event, to a state.

The `check` constraints and guarded updates of the store follow these tables. `python -m tools.diagrams` draws
them for `docs/`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from holdfast.core.errors import IllegalTransition


@dataclass(frozen=True)
class StateMachine:
    """States with their transitions. A state without outgoing transitions is final."""

    name: str
    start: str
    transitions: Mapping[tuple[str, str], str]
    always: Mapping[str, str] = field(default_factory=dict)
    """Events that every state but a final one accepts, with the state they lead to; `transitions` win."""

    @property
    def states(self) -> tuple[str, ...]:
        """Every state, in the order the table names them."""
        names = [self.start]
        for (source, _), target in self.transitions.items():
            names += [source, target]
        return tuple(dict.fromkeys([*names, *self.always.values()]))

    @property
    def final(self) -> tuple[str, ...]:
        sources = {source for source, _ in self.transitions}
        return tuple(state for state in self.states if state not in sources)

    @cached_property
    def moves(self) -> Mapping[tuple[str, str], str]:
        """The transitions with those that are always there, written out."""
        living = [state for state in self.states if state not in self.final]
        everywhere = {(state, event): to for state in living for event, to in self.always.items()}
        return {**everywhere, **self.transitions}

    def after(self, state: str, event: str) -> str:
        """The state that follows; raises `IllegalTransition` for an event that the table does not have."""
        target = self.moves.get((state, event))
        if target is None:
            raise IllegalTransition(self.name, state, event)
        return target


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
        ("claimed", "claim again after its lease ran out"): "claimed",
        ("claimed", "mark delivered"): "delivered",
        ("claimed", "defer"): "owed",
        ("claimed", "give back"): "owed",
        ("claimed", "set aside"): "set_aside",
        ("set_aside", "retry"): "owed",
        ("set_aside", "drop"): "dropped",
        ("owed", "forget"): "dropped",
        ("claimed", "forget"): "dropped",
        ("set_aside", "forget"): "dropped",
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

SCHEDULE = StateMachine(
    name="schedule",
    start="active",
    transitions={
        ("active", "pause"): "paused",
        ("paused", "resume"): "active",
        ("active", "remove"): "removed",
        ("paused", "remove"): "removed",
    },
)

SCHEDULED_RUN = StateMachine(
    name="scheduled run",
    start="due",
    transitions={
        ("due", "claim"): "running",
        ("due", "skip"): "skipped",
        ("running", "claim again after its claim ran out"): "running",
        ("running", "complete"): "done",
        ("running", "fail"): "failed",
    },
)
"""From the moment it is due to the end of its turn, whether or not it is told to a chat."""

RUN_DELIVERY = StateMachine(
    name="delivery of a run",
    start="none",
    transitions={
        ("none", "the run ends"): "due",
        ("due", "send"): "sent",
        ("due", "fail"): "failed",
    },
)
"""From the end of a run to the message in the chat that its schedule names."""

RUNNER = StateMachine(
    name="runner",
    start="idle",
    transitions={
        ("idle", "call"): "claiming",
        ("idle", "look"): "following",
        ("idle", "close"): "closed",
        ("claiming", "call"): "claiming",
        ("claiming", "hold"): "serving",
        ("claiming", "find it held"): "waiting",
        ("claiming", "lose"): "waiting",
        ("claiming", "fail"): "retrying",
        ("serving", "call"): "serving",
        ("serving", "check"): "checking",
        ("serving", "lose"): "waiting",
        ("serving", "fail"): "retrying",
        ("checking", "call"): "called_again",
        ("checking", "find work"): "serving",
        ("checking", "release"): "resting",
        ("checking", "lose"): "waiting",
        ("checking", "fail"): "retrying",
        ("called_again", "call"): "called_again",
        ("called_again", "find work"): "serving",
        ("called_again", "release"): "claiming",
        ("called_again", "lose"): "waiting",
        ("called_again", "fail"): "retrying",
        ("resting", "call"): "claiming",
        ("resting", "follow"): "following",
        ("resting", "leave"): "idle",
        ("following", "call"): "claiming",
        ("following", "take"): "claiming",
        ("following", "lose"): "following",
        ("following", "fail"): "following",
        ("following", "leave"): "idle",
        ("waiting", "call"): "claiming",
        ("waiting", "try again"): "claiming",
        ("waiting", "lose"): "waiting",
        ("waiting", "fail"): "retrying",
        ("waiting", "give up"): "following",
        ("retrying", "call"): "claiming",
        ("retrying", "try again"): "claiming",
        ("closing", "call"): "closing",
        ("closing", "stop"): "closed",
    },
    always={"stop": "idle", "close": "closing", "delete": "deleted"},
)
"""What a conversation's runner does in one process (`host/conversation.py`).

A call is something to be done here: a message, a command, a turn that a dead process left. The lease is held
while the runner is serving, checking or called again. Checking asks the store whether anything is left to do,
and releases the lease if not; a call in that moment is not forgotten (called again). Waiting is for a lease
that another process holds; following shows what other processes do to readers here.
"""

STORED = (TURN, INBOX, ASK, DELIVERY, SCHEDULE, SCHEDULED_RUN, RUN_DELIVERY)
"""Those whose states are columns of the store."""

MACHINES = (*STORED, RUNNER)
