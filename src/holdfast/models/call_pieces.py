"""Puts the pieces of streamed tool calls in order, however the server uses indexes and ids.

Servers differ: some give every call the index 0, some give no index, some repeat the id and the name in each
piece, some leave the id out. The result follows the contract of `ToolCallPiece`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.core.ids import new_id
from holdfast.models.contract import ToolCallPiece


@dataclass
class _StreamedCall:
    id: str = ""
    """The server's id; empty until it sends one."""
    name: str = ""


@dataclass
class CallPieces:
    """The calls of one answer so far."""

    _calls: list[_StreamedCall] = field(default_factory=list)
    _current: dict[int | None, int] = field(default_factory=dict)
    """For each index of the server: the call that its pieces belong to now."""

    def __bool__(self) -> bool:
        return bool(self._calls)

    def add(self, index: int | None, call_id: str, name: str, arguments: str) -> Iterator[ToolCallPiece]:
        """Turn one piece from the server into at most one piece of the contract."""
        position = self._current.get(index)
        shown_id = ""
        if position is None or self._starts_another(index, self._calls[position], call_id, name):
            position = self._current[index] = len(self._calls)
            self._calls.append(_StreamedCall())
            shown_id = call_id or f"call_{new_id()}"
        call = self._calls[position]
        shown_name = "" if call.name else name
        call.id = call.id or call_id
        call.name = call.name or name
        if shown_id or shown_name or arguments:
            yield ToolCallPiece(position, shown_id, shown_name, arguments)

    @staticmethod
    def _starts_another(index: int | None, call: _StreamedCall, call_id: str, name: str) -> bool:
        if call_id and call.id:
            return call_id != call.id
        # Without ids another name means another call; without an index, too, any name does.
        return bool(name and call.name) and (index is None or name != call.name)
