"""`SwitchableModel`: the current model. Another model can replace it from the next turn on.

A turn borrows the model for its whole length, so a switch does not affect running turns. A former model is
closed when no turn uses it any more: a model on this machine uses gigabytes of memory.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from weakref import WeakSet

from holdfast.models.contract import Model, ModelPiece, ModelRequest, ModelTraits


@runtime_checkable
class LoadedModel(Protocol):
    """A model on this machine, which the first request would load."""

    async def warm_up(self) -> None:
        """Load it now."""
        ...


class _BorrowedModel:
    """A model that a turn uses. Only its owner closes it."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def traits(self) -> ModelTraits:
        return self._model.traits

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        return self._model.stream(request)

    async def close(self) -> None:
        pass


@dataclass(frozen=True, slots=True, eq=False)
class _OpenModel:
    """An open model, and the turns that use it."""

    model: Model
    borrowers: "WeakSet[_BorrowedModel]" = field(default_factory=WeakSet)


class SwitchableModel:
    """A model that can be replaced by another one. Used on one event loop."""

    def __init__(self, model: Model) -> None:
        self._current = _OpenModel(model)
        self._former: list[_OpenModel] = []

    @property
    def traits(self) -> ModelTraits:
        return self._current.model.traits

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """One answer of the current model."""
        return self._answer(self.borrow(), request)

    def borrow(self) -> Model:
        """The current model. It stays open as long as the caller keeps the returned object."""
        borrowed = _BorrowedModel(self._current.model)
        self._current.borrowers.add(borrowed)
        return borrowed

    def switch(self, model: Model) -> None:
        """Make this the current model."""
        self._former.append(self._current)
        self._current = _OpenModel(model)

    async def warm_up(self) -> None:
        """Load the current model now, when it is one that is loaded; raises a `ModelFailure`."""
        borrowed = self._current.model
        if isinstance(borrowed, LoadedModel):
            await borrowed.warm_up()

    async def close_unused(self) -> None:
        """Close the former models that nobody uses any more."""
        unused = [each for each in self._former if not each.borrowers]
        self._former = [each for each in self._former if each.borrowers]
        for each in unused:
            await each.model.close()

    async def close(self) -> None:
        """Close every model, used or not."""
        former, self._former = self._former, []
        for each in (self._current, *former):
            await each.model.close()

    @staticmethod
    async def _answer(borrowed: Model, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        # This generator keeps the model open until the answer ends.
        async with aclosing(borrowed.stream(request)) as pieces:
            async for piece in pieces:
                yield piece


def borrow_for_turn(model: Model) -> Model:
    """The model for one turn: the current one of a `SwitchableModel`, or else the model itself."""
    return model.borrow() if isinstance(model, SwitchableModel) else model
