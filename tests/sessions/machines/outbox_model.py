"""What the outbox should be, in plain Python, and the provider that its deliveries reach.

Time is in whole seconds since the example began.
"""

from dataclasses import dataclass, field

from holdfast.core.errors import LeaseLost, NotSetAside

OPEN = ("owed", "claimed")


@dataclass
class ModelDelivery:
    """One turn owed to one provider. `claim` is the number of the claim it is under."""

    id: int
    session_id: str
    turn_id: str
    provider: str
    due: int
    state: str = "owed"
    attempts: int = 0
    claim: int | None = None
    set_aside_once: bool = False


@dataclass
class Provider:
    """Keeps each turn under its key, and notes in which order the turns came."""

    received: list[tuple[str, str]] = field(default_factory=list)
    kept: dict[tuple[str, str], str] = field(default_factory=dict)

    def take(self, delivery: ModelDelivery, text: str) -> None:
        key = (delivery.turn_id, delivery.provider)
        self.received.append(key)
        self.kept[key] = text


class ModelOutbox:
    """Rows in the order they were made, which is their order of delivery within a session."""

    def __init__(self) -> None:
        self.rows: dict[int, ModelDelivery] = {}
        self.now = 0

    def open_rows(self, provider: str) -> dict[str, list[ModelDelivery]]:
        """What is owed to a provider, session by session."""
        sessions: dict[str, list[ModelDelivery]] = {}
        for row in self.rows.values():
            if row.provider == provider and row.state in OPEN:
                sessions.setdefault(row.session_id, []).append(row)
        return sessions

    def claimable(self, provider: str, limit: int) -> list[ModelDelivery]:
        """From each session's head on, up to what is under a live lease or waits for its retry."""
        due: list[list[ModelDelivery]] = []
        for rows in self.open_rows(provider).values():
            first_late = next((at for at, row in enumerate(rows) if row.due > self.now), len(rows))
            if first_late:
                due.append(rows[:first_late])
        due.sort(key=lambda run: (run[0].due, run[0].id))
        return [row for run in due for row in run][:limit]

    def claim(self, rows: list[ModelDelivery], claim: int, lease: int) -> None:
        for row in rows:
            row.state, row.claim, row.due = "claimed", claim, self.now + lease
            row.attempts += 1

    def extend(self, claim: int, lost: LeaseLost, lease: int) -> None:
        rows = [row for row in self.rows.values() if row.claim == claim]
        if not rows:
            raise lost
        for row in rows:
            row.due = self.now + lease

    def end_claims(self, claims: set[int]) -> int:
        """Those in force run out; returns how many deliveries are due by that."""
        rows = [row for row in self.rows.values() if row.claim in claims and row.due > self.now]
        for row in rows:
            row.due = self.now
        return len(rows)

    def settle(self, row: ModelDelivery, claim: int, lost: LeaseLost) -> None:
        if row.claim != claim:
            raise lost
        row.state, row.claim = "delivered", None

    def give_back(
        self, row: ModelDelivery, claim: int, lost: LeaseLost, *, delay: int, counted: bool
    ) -> None:
        if row.claim != claim:
            raise lost
        row.state, row.claim, row.due = "owed", None, self.now + delay
        row.attempts -= 0 if counted else 1

    def set_aside(self, row: ModelDelivery, claim: int, lost: LeaseLost) -> None:
        if row.claim != claim:
            raise lost
        row.state, row.claim, row.set_aside_once = "set_aside", None, True

    def retry(self, row: ModelDelivery) -> None:
        if row.state != "set_aside":
            raise NotSetAside(row.id, row.state)
        row.state, row.attempts, row.due = "owed", 0, self.now

    def drop(self, row: ModelDelivery) -> None:
        if row.state != "set_aside":
            raise NotSetAside(row.id, row.state)
        row.state = "dropped"
