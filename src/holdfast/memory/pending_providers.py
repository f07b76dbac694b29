"""Providers that did not load in time: turns are recorded for them, and they are attached when they load.

Plain data without locks: `manager.py` guards it.
"""

from collections.abc import Iterator
from contextlib import suppress

from holdfast.core.errors import StoreClosed
from holdfast.memory.contract import ProviderStatus
from holdfast.sessions import SessionDB


class PendingProviders:
    """The names of the providers, as the settings have them, each with the reason why it is pending."""

    def __init__(self) -> None:
        self._problems: dict[str, str] = {}
        self._unusable: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._problems)

    def add(self, name: str, problem: str) -> None:
        self._problems = {**self._problems, name: problem}

    def mark_unusable(self, name: str, problem: str) -> None:
        """The provider has loaded and can't be used. Its turns stay in the outbox."""
        if name in self._problems:
            self.add(name, problem)
            self._unusable.add(name)

    @property
    def may_still_load(self) -> bool:
        """Whether a pending provider may still load."""
        return any(name not in self._unusable for name in self._problems)

    def remove(self, name: str) -> None:
        self._problems = {each: why for each, why in self._problems.items() if each != name}

    def problems(self) -> list[str]:
        return [f"{why}; its turns are kept for it" for why in self._problems.values()]

    def status(self, store: SessionDB | None) -> list[ProviderStatus]:
        return [_status(store, name, why) for name, why in self._problems.items()]


def _status(store: SessionDB | None, name: str, problem: str) -> ProviderStatus:
    owed, set_aside = 0, 0
    with suppress(StoreClosed):
        if store is not None:
            backlog = store.outbox.backlog(name)
            owed, set_aside = backlog.owed, backlog.set_aside
    return ProviderStatus(
        provider=name,
        owed=owed,
        oldest_owed_seconds=None,
        set_aside=set_aside,
        delivered=0,
        circuit="open",
        last_error=problem,
        recall_stuck=True,
    )
