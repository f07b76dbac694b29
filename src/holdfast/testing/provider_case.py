"""`ProviderCase`: what the contract suite must know about a provider, and how it makes one.

For a class of provider, or a function that makes one, nothing needs to be written. A subclass of
`ProviderCase` lets the suite look into the backend and break it; what a case doesn't offer is not tried.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from holdfast.core.clock import SystemClock
from holdfast.memory.config import ProviderConfig, declared, resolve
from holdfast.memory.contract import MemoryProvider

Health = Literal["well", "down", "slow", "wedged"]
"""Down: every call fails. Slow: a call takes half a second. Wedged: a call never ends."""


class NotOffered(Exception):
    """The case can't do what a check needs; the check is not tried."""


class ProviderCase:
    """Makes a provider, starts what it talks to, looks into it and breaks it.

    It is made anew for each check, with an empty folder. `start` and `stop` run in the suite's process
    alone; processes that the suite kills only call `make`, and get the values of `config`.
    """

    gaps: ClassVar[Mapping[str, str]] = {}
    """Checks that this provider can't pass, and why; the report card says so."""
    settle_seconds: ClassVar[float] = 10.0
    """How long after its delivery a turn may take to be found."""
    commits: ClassVar[bool] = False
    """Whether it stores only at a boundary: the suite then ends the session before it looks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> MemoryProvider:
        """The provider, on this case's folder and backend."""
        raise NotImplementedError

    def config(self) -> Mapping[str, str]:
        """The values of the provider's fields."""
        return {}

    def start(self) -> None:
        """Start what the provider talks to."""

    def stop(self) -> None:
        """Stop it, and leave nothing behind."""

    def stored(self) -> Sequence[str]:
        """The texts that the backend holds, oldest first, past the provider; each of what a user said."""
        raise NotOffered("the case has no stored()")

    def set_health(self, health: Health) -> None:  # noqa: ARG002 - for those who override it
        """Break the backend, or mend it with "well"."""
        raise NotOffered("the case has no set_health()")


Offered = Mapping[str, object]


class FactoryCase(ProviderCase):
    """A provider with no case of its own: made by its class, and looked into through recall alone."""

    def __init__(self, folder: Path, factory: Callable[..., Any], values: Mapping[str, str]) -> None:
        super().__init__(folder)
        self._factory = factory
        self._values = values

    def make(self) -> MemoryProvider:
        offered: Offered = {"folder": self.folder, "clock": SystemClock()}
        wanted = inspect.signature(self._factory).parameters.keys() & offered.keys()
        made: MemoryProvider = self._factory(**{name: offered[name] for name in wanted})
        return made

    def config(self) -> Mapping[str, str]:
        return self._values


MakeCase = Callable[[Path], ProviderCase]


def load_case(spec: str, values: Mapping[str, str]) -> MakeCase:
    """What `--provider module:Name` names: a case, a class of provider, or a function that makes one."""
    module, colon, name = spec.partition(":")
    if not colon:
        raise ValueError(f"--provider takes module:Name, not {spec!r}")
    found = getattr(importlib.import_module(module), name)
    if inspect.isclass(found) and issubclass(found, ProviderCase):
        return found
    return lambda folder: FactoryCase(folder, found, values)


def gaps_of(make_case: MakeCase) -> Mapping[str, str]:
    """The gaps that a case declares."""
    return make_case.gaps if isinstance(make_case, type) and issubclass(make_case, ProviderCase) else {}


def resolved(provider: MemoryProvider, values: Mapping[str, str]) -> ProviderConfig:
    """The provider's configuration from plain values."""
    return resolve(declared(provider), values)
