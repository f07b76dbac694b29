"""Memory backends that outlive every simulated process and answer by a script.

What a lane may not do is noted in `Ledger.wrongs`, not raised: a lane catches whatever a provider raises.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from holdfast.core.contract import Message
from holdfast.core.errors import ProviderUnavailable, Undeliverable
from holdfast.memory import CompletedTurn, MemoryProvider
from holdfast.sessions import SessionDB

Answer = Literal["ok", "down", "later", "refused", "nonsense", "exits", "ctrl-c", "unheard", "half"]
Owed = tuple[str, str]
"""A provider's name and what the user said, which is different in each turn."""


def failure(answer: Answer, name: str) -> BaseException | None:
    """What a call with this answer raises."""
    return {
        "ok": None,
        "down": ProviderUnavailable(name),
        "later": ProviderUnavailable(name, retry_after=30),
        "refused": Undeliverable("never this one"),
        "nonsense": ValueError("\x00\ud800 is no answer"),
        "exits": SystemExit(3),
        "ctrl-c": KeyboardInterrupt(),
        "unheard": ConnectionError("stored, and the answer lost"),
        "half": TimeoutError("stored in part"),
    }[answer]


@dataclass
class Ledger:
    """What was recorded and what became of it, as seen from outside the processes."""

    observer: SessionDB
    recorded: dict[str, list[str]] = field(default_factory=dict)
    """What users said, session by session, in order."""
    rows: dict[Owed, int] = field(default_factory=dict)
    sessions: dict[str, str] = field(default_factory=dict)
    arrived: dict[str, list[str]] = field(default_factory=dict)
    """First arrivals at each provider, in order."""
    refused_alone: set[Owed] = field(default_factory=set)
    failed_alone: set[Owed] = field(default_factory=set)
    set_aside_once: set[Owed] = field(default_factory=set)
    dropped: set[Owed] = field(default_factory=set)
    wrongs: list[str] = field(default_factory=list)

    def record(self, session_id: str, said: str) -> None:
        """A turn is in the store: take down its deliveries."""
        self.recorded.setdefault(session_id, []).append(said)
        self.sessions[said] = session_id
        for row in self.observer.outbox.list("owed", after=max(self.rows.values(), default=0)):
            self.rows[row.provider, said] = row.id

    def state(self, owed: Owed) -> str:
        row = self.observer.outbox.get(self.rows[owed])
        assert row is not None
        return row.state

    def has_settled(self, provider: str, said: str) -> bool:
        """Whether it has arrived, or was set aside at some time, so that others may pass it."""
        self.look_aside(max_attempts=None)
        return said in self.arrived[provider] or (provider, said) in self.set_aside_once

    def look_aside(self, max_attempts: int | None) -> None:
        """D3: only what was refused for good, or failed too often, is set aside, and with its reason."""
        names = {row: owed for owed, row in self.rows.items()}
        for letter in self.observer.outbox.list("set_aside", limit=1000):
            owed = names[letter.id]
            self.set_aside_once.add(owed)
            if max_attempts is not None:
                spent = owed in self.failed_alone and letter.attempts >= max_attempts
                assert owed in self.refused_alone or spent, f"{owed} was set aside for nothing"
                assert letter.last_error

    def take(self, provider: str, said: str) -> None:
        """M6: nothing overtakes what was recorded before it in its session."""
        if said in self.arrived[provider]:
            return
        earlier = self.recorded[self.sessions[said]]
        for each in earlier[: earlier.index(said)]:
            if not self.has_settled(provider, each):
                self.wrongs.append(f"{said} reached {provider} before {each}")
        self.arrived[provider].append(said)


@dataclass(frozen=True)
class Slowness:
    """How a call takes long."""

    seconds: int = 0
    kept: bool = False
    """Whether its claim is prolonged meanwhile."""
    stored_first: bool = False


class Backend:
    """One backend. It answers from `script`, then with "ok"."""

    def __init__(self, name: str, ledger: Ledger, *, keyed: bool) -> None:
        self.name = name
        self.keyed = keyed
        self.script: list[Answer] = []
        self.meanwhile: Callable[[], None] | None = None
        self.slowness = Slowness()
        self.poisoned: set[str] = set()
        self.fails_to_start = False
        self.by_key: dict[str, str] = {}
        self._guarded: set[str] = set()
        self._ledger = ledger
        ledger.arrived[name] = []

    def receive(self, said: Sequence[str], keys: Sequence[str]) -> None:
        for each in said:
            state = self._ledger.state((self.name, each))
            if state != "claimed":
                self._ledger.wrongs.append(f"{each} was sent to {self.name} while it was {state}")
            if each in self._guarded:
                self._ledger.wrongs.append(f"{each} was sent to {self.name} during a call that was kept")
        answer = self.script.pop(0) if self.script else "ok"
        if self.poisoned.intersection(said):
            answer = "refused"
        with self._while_out(said):
            stored = {"ok": len(said), "unheard": len(said), "half": len(said) // 2}.get(answer, 0)
            for each in said[:stored]:
                self._ledger.take(self.name, each)
            self.by_key.update(zip(keys[:stored], said[:stored], strict=False))
        error = failure(answer, self.name)
        if error is not None:
            if len(said) == 1:
                self._ledger.failed_alone.add((self.name, said[0]))
                if isinstance(error, Undeliverable):
                    self._ledger.refused_alone.add((self.name, said[0]))
            raise error

    @contextmanager
    def _while_out(self, said: Sequence[str]) -> Iterator[None]:
        """What happens elsewhere while this call is out, before or after it has stored anything."""
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is None:
            yield
            return
        self._guarded = set(said) if self.slowness.kept else set()
        if not self.slowness.stored_first:
            meanwhile()
        yield
        if self.slowness.stored_first:
            meanwhile()
        self._guarded = set()

    def heal(self) -> None:
        self.script, self.poisoned, self.fails_to_start = [], set(), False


class Client(MemoryProvider):
    """One process's way to a backend, turn by turn and with the short signature of older plugins."""

    def __init__(self, backend: Backend, ledger: Ledger) -> None:
        self._backend = backend
        self._ledger = ledger
        self.state = "new"

    @property
    def name(self) -> str:
        return self._backend.name

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: object) -> None:
        self.add_pending("new")
        if self._backend.fails_to_start:
            raise ProviderUnavailable(self.name)
        self.state = "started"

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def sync_turn(  # type: ignore[override]
        self, user_content: str, assistant_content: str, *, session_id: str = ""
    ) -> None:
        self.add_pending("started")
        self.check_turn(user_content, assistant_content, session_id)
        self._backend.receive([user_content], [])

    def shutdown(self) -> None:
        self.add_pending("started")
        self.state = "shut down"

    def add_pending(self, state: str) -> None:
        """D4: nothing comes before the start, and nothing after the end."""
        if self.state != state:
            self._ledger.wrongs.append(f"{self.name} was called when it was {self.state}, not {state}")

    def check_turn(self, said: str, answered: str, session_id: str) -> None:
        if (answered, session_id) != (f"re: {said}", self._ledger.sessions[said]):
            self._ledger.wrongs.append(f"{said} came with {answered!r} in {session_id!r}")


class BatchClient(Client):
    """The same in batches, each turn with its key."""

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        self.add_pending("started")
        for turn in turns:
            self.check_turn(turn.user_content, turn.assistant_content, turn.session_id)
            if turn.messages != handed_over(turn.user_content):
                self._ledger.wrongs.append(f"{turn.user_content} came with {turn.messages}")
        self._backend.receive([turn.user_content for turn in turns], [turn.key for turn in turns])


def handed_over(said: str) -> list[Message]:
    """What is handed over beside a turn."""
    return [{"role": "system", "content": f"context of {said}"}]


def client(backend: Backend, ledger: Ledger) -> Client:
    return (BatchClient if backend.keyed else Client)(backend, ledger)
