"""`ProviderCase`: tells the contract suite how to create a provider, read its backend and break it.

For a provider class, or a function that makes a provider, no case needs to be written. A subclass of
`ProviderCase` lets the suite read the backend and break it. Checks that need more than a case offers are not
tried.
"""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

from holdfast.core.clock import SystemClock
from holdfast.memory.config import ProviderConfig, declared_fields, resolve_config
from holdfast.memory.contract import MemoryProvider

Health = Literal["well", "down", "slow", "wedged"]
"""Down: every call fails. Slow: a call takes half a second. Wedged: a call never ends."""


class NotOffered(Exception):
    """The case lacks something that a check needs, so the check is not tried."""


class ProviderCase:
    """Creates a provider, starts its backend, reads the backend and breaks it.

    Each check gets a new case with an empty folder. `start` and `stop` run only in the suite's process. The
    processes that the suite kills call only `make`, and get the values of `config`.
    """

    gaps: ClassVar[Mapping[str, str]] = {}
    """Checks that this provider can't pass, and why; the report card says so."""
    settle_seconds: ClassVar[float] = 10.0
    """How long after its delivery a turn may take to be found."""
    commits: ClassVar[bool] = False
    """Whether it stores only at a session boundary. The suite then ends the session before it reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def make(self) -> MemoryProvider:
        """The provider, on this case's folder and backend."""
        raise NotImplementedError

    def config(self) -> Mapping[str, str]:
        """The values of the provider's fields."""
        return {}

    def start(self) -> None:
        """Start the backend."""

    def stop(self) -> None:
        """Stop the backend and remove everything that it left."""

    def stored(self) -> Sequence[str]:
        """The user texts in the backend, the oldest first, read without the provider."""
        raise NotOffered("the case has no stored()")

    def set_health(self, health: Health) -> None:  # noqa: ARG002 - for those who override it
        """Break the backend, or repair it with "well"."""
        raise NotOffered("the case has no set_health()")


Offered = Mapping[str, object]


class FactoryCase(ProviderCase):
    """A provider without its own case: created by its class, and checked through recall only."""

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
    """Load `--provider module:Name`: a case, a provider class, or a function that makes a provider."""
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
    return resolve_config(declared_fields(provider), values)
