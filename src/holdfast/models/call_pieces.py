"""Puts the pieces of streamed tool calls in order, whatever the server makes of indexes and ids.

Servers differ: some give every call the index 0, some none at all, some repeat the id and the name in
each piece, some leave the id out. What leaves here keeps the contract of `ToolCallPiece`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from holdfast.core.ids import new_id
from holdfast.models.contract import ToolCallPiece


def new_call_id() -> str:
    return f"call_{new_id()}"


@dataclass
class _Call:
    id: str = ""
    """As the server gave it; empty while it gave none."""
    name: str = ""


@dataclass
class CallPieces:
    """The calls of one answer so far."""

    make_id: Callable[[], str] = new_call_id
    _calls: list[_Call] = field(default_factory=list)
    _current: dict[int | None, int] = field(default_factory=dict)
    """The call that pieces with the server's index belong to now."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, index: int | None, call_id: str, name: str, arguments: str) -> Iterator[ToolCallPiece]:
        """One piece as the server sent it, as at most one piece of the contract."""
        place = self._current.get(index)
        shown_id = ""
        if place is None or self._starts_another(index, self._calls[place], call_id, name):
            place = self._current[index] = len(self._calls)
            self._calls.append(_Call())
            shown_id = call_id or self.make_id()
        call = self._calls[place]
        shown_name = "" if call.name else name
        call.id = call.id or call_id
        call.name = call.name or name
        if shown_id or shown_name or arguments:
            yield ToolCallPiece(place, shown_id, shown_name, arguments)

    @staticmethod
    def _starts_another(index: int | None, call: _Call, call_id: str, name: str) -> bool:
        if call_id and call.id:
            return call_id != call.id
        # With no ids to go by, another name is another call; with no index either, any name is.
        return bool(name and call.name) and (index is None or name != call.name)
