"""A memory provider that reports each delivery to the torture, in the order in which it gets them."""

import json
import os
import socket
import urllib.request
from collections.abc import Sequence
from typing import Any

from holdfast.memory.contract import CompletedTurn, MemoryProvider

ADDRESS = "TORTURE_MEMORY_URL"
NAME = "recorder"
SECONDS = 20


class Recorder(MemoryProvider):
    """Keeps nothing itself: whoever runs the torture has the list."""

    @property
    def name(self) -> str:
        return NAME

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: object) -> None:
        """Nothing to prepare."""

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        named = [[turn.session_id, turn.turn_id] for turn in turns]
        body = json.dumps({"host": socket.gethostname(), "turns": named}).encode()
        with urllib.request.urlopen(os.environ[ADDRESS], body, SECONDS) as answer:  # noqa: S310 - http
            answer.read()
