"""`ModelInUse`: the model that is asked now. Another can take its place, from the next turn on.

A turn borrows the model for its whole length, so a switch never touches a turn that runs. A former model is
closed once nobody has it any more: one on this machine holds gigabytes.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from weakref import WeakSet

from holdfast.models.contract import Model, ModelPiece, ModelRequest, ModelTraits


class _Lent:
    """A model in somebody's hands. Closing it is its owner's business."""

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
class _Open:
    """A model that is open, and in whose hands it is."""

    model: Model
    lent: "WeakSet[_Lent]" = field(default_factory=WeakSet)


class ModelInUse:
    """A model whose place another can take. Used on one event loop."""

    def __init__(self, model: Model) -> None:
        self._current = _Open(model)
        self._former: list[_Open] = []

    @property
    def traits(self) -> ModelTraits:
        return self._current.model.traits

    def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        """One answer of the model that is in use now."""
        return self._answer(self.lend(), request)

    def lend(self) -> Model:
        """The model in use now, for as long as the borrower keeps it."""
        borrowed = _Lent(self._current.model)
        self._current.lent.add(borrowed)
        return borrowed

    def switch(self, model: Model) -> None:
        """From now on this one is lent."""
        self._former.append(self._current)
        self._current = _Open(model)

    async def close_unused(self) -> None:
        """Close the former models that nobody has any more."""
        unused = [each for each in self._former if not each.lent]
        self._former = [each for each in self._former if each.lent]
        for each in unused:
            await each.model.close()

    async def close(self) -> None:
        """Close every model, used or not."""
        former, self._former = self._former, []
        for each in (self._current, *former):
            await each.model.close()

    @staticmethod
    async def _answer(borrowed: Model, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        # It stays borrowed as long as this answer lasts.
        async with aclosing(borrowed.stream(request)) as pieces:
            async for piece in pieces:
                yield piece


def lent(model: Model) -> Model:
    """The model for one turn: the one in use now, or the only one there is."""
    return model.lend() if isinstance(model, ModelInUse) else model
