"""Calls that are handed to a client, and the results that it brings back. The ids tell which turn called.

A client that resends the whole conversation names no session: the id of a call it was given does. So a server
that was started anew in between finds the turn in the store, and goes on in its session.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.agent.client_request import results_message
from holdfast.core.contract import Message, ToolCall
from holdfast.host import SessionHost
from holdfast.host.records import ClientCalls

HANDED = re.compile(r"call_([0-9A-Z]{26})_([0-9]{1,4})")


def with_turn_ids(turn_id: str, calls: Sequence[ToolCall]) -> list[ToolCall]:
    """The calls with ids that tell the turn; in the store they keep the model's own."""
    return [{**call, "id": f"call_{turn_id}_{place}"} for place, call in enumerate(calls)]


@dataclass(frozen=True, slots=True)
class BroughtResults:
    """The results of a request, and what its user says beside them."""

    results: Sequence[Message]
    said: str | list[dict[str, Any]]
    names: Mapping[str, str]
    """The tools by the ids of their calls, as far as the request tells."""

    async def waiting_session(self, host: SessionHost, sees: str | None = None) -> str | None:
        """The session whose last turn waits for these results; None when there is none in this scope."""
        for turn_id in dict.fromkeys(found[0] for each in self.results if (found := _place(each))):
            handed = await _handed(host, turn_id, sees)
            if handed is not None and handed.is_last:
                return handed.session_id
        return None

    async def message(self, host: SessionHost, sees: str | None = None) -> Message:
        """The message that brings them, by the ids that the store knows."""
        results: list[Message] = []
        names = dict(self.names)
        for each in self.results:
            call_id = str(each.get("tool_call_id") or "")
            if (place := _place(each)) and (handed := await _handed(host, place[0], sees)) is not None:
                call = handed.calls[place[1]] if place[1] < len(handed.calls) else None
                if call is not None and handed.is_last:
                    call_id = call["id"]
                    names[call_id] = call["function"]["name"]
            results.append({**each, "tool_call_id": call_id})
        return results_message(results, names, self.said)


async def _handed(host: SessionHost, turn_id: str, sees: str | None) -> ClientCalls | None:
    """The calls of a turn, unless it is of another scope than may be seen."""
    handed = await host.records.client_calls(turn_id)
    if handed is None or sees is None or await host.accounts.owns(sees, handed.session_id):
        return handed
    return None


def _place(result: Message) -> tuple[str, int] | None:
    """The turn that called, and which of its calls it was."""
    found = HANDED.fullmatch(str(result.get("tool_call_id") or ""))
    return (found[1], int(found[2])) if found else None
