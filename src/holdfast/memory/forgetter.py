"""`Forgetter`: takes a selection, stores the request to forget it, and follows it on the providers' lanes."""

from collections.abc import Mapping, Sequence
from functools import partial

from holdfast.core.contract import Clock
from holdfast.core.ids import new_id
from holdfast.memory.forget_selection import ForgetSelection, ForgetSelector
from holdfast.memory.provider_lanes import ProviderLanes
from holdfast.process import ShutdownBudget
from holdfast.sessions import SessionDB
from holdfast.sessions.forgettings import Forgetting

WAIT_SECONDS = 10.0


class Forgetter:
    """Forgets in every provider of a manager. Its calls block; run them off the event loop."""

    def __init__(
        self, store: SessionDB, lanes: Mapping[str, ProviderLanes], names: Sequence[str], clock: Clock
    ) -> None:
        self._store = store
        self._lanes = lanes
        self._names = names
        self._clock = clock
        self.select = ForgetSelector(store, lanes, clock)

    def forget(self, selection: ForgetSelection, *, key: str | None = None) -> int:
        """Store the request; it is carried out even after a crash. Returns its number.

        From now on the turns reach no provider any more, and no kept recall is used. The same key again is
        the same request.
        """
        forgettings = self._store.forgettings
        request = {
            "sessions": forgettings.whole_sessions(selection.turns),
            "memory_ids": selection.memory_ids(),
            "scopes": self._store.sessions.scopes({session_id for session_id, _ in selection.turns}),
            "period": None if selection.period is None else list(selection.period),
        }
        number = forgettings.accept(
            key or new_id(), selection.kind, selection.turns, request, providers=self._concerned(selection)
        )
        self.wake()
        return number

    def wake(self) -> None:
        """A request is in the store: use no kept recall any more, and carry the request out."""
        for lanes in self._lanes.values():
            lanes.recalls.forget_all()
            lanes.writes.look_for_forgettings()

    def wait(self, number: int, timeout: float = WAIT_SECONDS) -> Forgetting | None:
        """Wait until the providers in use have answered, or the time is over; returns the record."""
        budget = ShutdownBudget(timeout, self._clock)
        for name, lanes in self._lanes.items():
            lanes.writes.wait_until(partial(self._is_settled, number, name), budget.remaining())
        return self._store.forgettings.get(number)

    def retry(self, number: int) -> None:
        """Try a forgetting again where it failed."""
        self._store.forgettings.retry(number)
        for lanes in self._lanes.values():
            lanes.writes.look_for_forgettings()

    def _concerned(self, selection: ForgetSelection) -> list[str]:
        """The providers that may have something of the selection."""
        if selection.turns or selection.period is not None:
            return list(self._names)
        return list(selection.memory_ids())

    def _is_settled(self, number: int, provider: str) -> bool:
        record = self._store.forgettings.get(number)
        return record is None or not any(
            each.provider == provider and each.state == "owed" for each in record.providers
        )
