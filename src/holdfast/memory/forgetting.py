"""What a provider is asked to forget, what it answers, and the methods that it may have for that.

A person's selection is resolved into turns and ids of memories (`forget_selection.py`), stored, and carried
out on the provider's write lane (`forgetting_task.py`). Nothing here holds the words of a memory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from holdfast.memory.contract import MemoryItem
from holdfast.sessions.contract import OWNER
from holdfast.sessions.forgettings import TurnRef


@dataclass(frozen=True, slots=True)
class ForgetRequest:
    """What one provider should delete. The fields add up."""

    key: str
    """The same for a request that comes again after a crash."""
    turns: tuple[TurnRef, ...] = ()
    """The session and the id of each turn."""
    sessions: tuple[str, ...] = ()
    """The sessions of which every turn is among `turns`, for a backend that deletes whole conversations."""
    memory_ids: tuple[str, ...] = ()
    """Ids of the provider's own memories."""
    period: tuple[float, float] | None = None
    """Also delete memories of no turn, such as notes, that were made in this period: its begin and its end.

    In seconds since the epoch.
    """
    scopes: Mapping[str, str] = field(default_factory=dict)
    """The scope of each session among `turns` that is not the owner's."""

    def by_scope(self) -> "dict[str, ForgetRequest]":
        """The same in parts, one for each scope; single memories and the period are in the owner's."""
        parts = {OWNER: replace(self, turns=(), sessions=(), scopes={})}
        for scope in dict.fromkeys((OWNER, *self.scopes.values())):
            mine = [each for each in self.turns if self.scopes.get(each[0], OWNER) == scope]
            whole = [each for each in self.sessions if self.scopes.get(each, OWNER) == scope]
            empty = parts.get(scope, ForgetRequest(self.key))
            parts[scope] = replace(empty, turns=tuple(mine), sessions=tuple(whole))
        return parts

    def turn_keys(self, provider: str) -> list[str]:
        """The keys under which the turns were delivered to a provider."""
        return [turn_key(session_id, turn_id, provider) for session_id, turn_id in self.turns]

    def turns_of_other_sessions(self) -> list[TurnRef]:
        """The turns of sessions of which other turns stay."""
        whole = set(self.sessions)
        return [each for each in self.turns if each[0] not in whole]

    @classmethod
    def of(cls, key: str, stored: dict[str, Any], provider: str) -> "ForgetRequest":
        """The request for one provider, as the store has it."""
        period = stored.get("period")
        return cls(
            key,
            tuple((session_id, turn_id) for session_id, turn_id in stored["turns"]),
            tuple(stored.get("sessions", ())),
            tuple(stored.get("memory_ids", {}).get(provider, ())),
            None if period is None else (float(period[0]), float(period[1])),
            stored.get("scopes", {}),
        )


@dataclass(frozen=True, slots=True)
class ForgetReport:
    """What a provider has deleted, and what it can't delete."""

    forgotten: int
    """How many memories, documents or conversations: whatever it deletes by."""
    kept: str = ""
    """What it can't delete and why, as a sentence without the provider's name; empty when nothing is left."""


@runtime_checkable
class ForgetsSelected(Protocol):
    """A provider that can delete by turns or by conversations."""

    def forget_selected(self, request: ForgetRequest) -> ForgetReport:
        """Delete permanently, and take none of the turns again. May be called again with the same request.

        Runs on the write lane. Raise when it failed: the request comes again.
        """
        ...


@runtime_checkable
class FindsMemories(Protocol):
    """A provider that finds its memories by their ids, and turns by who said them."""

    def memories_with(self, ids: Sequence[int]) -> list[MemoryItem]:
        """The memories with these ids, as far as they exist."""
        ...

    def turns_said_by(self, person: str) -> list[TurnRef]:
        """The turns in which the person spoke."""
        ...


def turn_key(session_id: str, turn_id: str, provider: str) -> str:
    """The stable key of a turn that is delivered to a provider."""
    return f"{session_id}/{turn_id}/{provider}"


def turns_kept(request: ForgetRequest) -> str:
    """What a backend keeps that can only delete whole conversations; empty when nothing is left."""
    count = len(request.turns_of_other_sessions())
    if not count:
        return ""
    turns = "1 turn stays" if count == 1 else f"{count} turns stay"
    return f"it can't forget single turns; {turns} there until the whole conversation is forgotten"
