"""`BatchProvider`: the base of providers that take completed turns in batches, each with its key."""

from abc import abstractmethod
from collections.abc import Sequence

from holdfast.core.contract import Clock, Message
from holdfast.memory.contract import CompletedTurn, MemoryProvider


class BatchProvider(MemoryProvider):
    """Takes turns through `sync_turns`; `sync_turn` calls it with a batch of one."""

    _clock: Clock

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether `shutdown` has begun."""

    @abstractmethod
    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        """Store the turns, each once by its key; raise when that failed."""

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: list[Message] | None = None,
    ) -> None:
        """Store one turn without a key; its key is made of its text and its position in the session."""
        if self.closed:
            return
        turn = CompletedTurn.without_key(
            user_content,
            assistant_content,
            session_id=session_id,
            messages=messages,
            completed=self._clock.now(),
        )
        self.sync_turns([turn])
