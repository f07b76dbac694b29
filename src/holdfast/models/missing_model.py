"""`MissingModel`: stands where a model should be, in a server that starts without one.

Messages are stored as always; each turn fails with the words that say what to set.
"""

from collections.abc import AsyncGenerator

from holdfast.core.errors import ModelMissing
from holdfast.models.contract import ModelPiece, ModelRequest, ModelTraits

# Far more than any message needs: without a model nothing is ever compacted.
WINDOW = 1_000_000
NO_PIECES: tuple[ModelPiece, ...] = ()


class MissingModel:
    """Answers nothing. `problem` says why there is no model and what to do."""

    def __init__(self, problem: str) -> None:
        self._problem = problem
        notice = f"There is no language model: {problem.rstrip('.')}. Then start Holdfast again."
        self.traits = ModelTraits("no model", WINDOW, calls_tools=False, summarises=False, notice=notice)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:  # noqa: ARG002 - the contract's
        """Raise `ModelMissing` before the first piece."""
        for piece in NO_PIECES:
            yield piece
        raise ModelMissing(self._problem)

    async def close(self) -> None:
        """Nothing is open."""
