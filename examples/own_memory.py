"""A memory of one's own: it is told every completed turn, once, and asked before every answer."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast import CompletedTurn, Host, MemoryProvider

FILE = Path("remembered.json")


class Notes(MemoryProvider):
    """Keeps what people say in one file. Plain, blocking code: it runs on threads of its own."""

    name = "notes"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        self._notes: dict[str, str] = json.loads(FILE.read_text()) if FILE.exists() else {}

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return []

    def sync_turns(self, turns: Sequence[CompletedTurn]) -> None:
        # A turn may be delivered twice; its key is the same then.
        self._notes |= {turn.key: turn.user_content for turn in turns}
        FILE.write_text(json.dumps(self._notes))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        words = set(query.lower().split())
        return "\n".join(note for note in self._notes.values() if words & set(note.lower().split()))


async def main() -> None:
    async with Host(model="openai:gpt-5-mini", memory=[Notes()], store="sqlite:///chats.db") as host:
        await host.ask("monday", "The key is under the mat.")
    async with Host(model="openai:gpt-5-mini", memory=[Notes()], store="sqlite:///chats.db") as host:
        print((await host.ask("tuesday", "Where is the key?")).final_response)


asyncio.run(main())
