"""The agent's tools: search memory, save a note, correct one, forget one."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from holdfast.providers.local.store import MAX_NOTE_LENGTH
from holdfast.providers.tool_arguments import ToolArguments

if TYPE_CHECKING:
    from holdfast.providers.local.provider import LocalMemory
    from holdfast.providers.local.scope import LocalScope


class MemorySearchArguments(ToolArguments):
    """Search what is remembered of all earlier conversations, and the saved notes."""

    query: str = Field(description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")

    def run(self, memory: "LocalMemory | LocalScope") -> dict[str, Any]:
        return {
            "found": [
                {
                    "id": each.id,
                    "kind": each.kind,
                    "when": memory.dated(each),
                    "speaker": each.speaker,
                    "text": each.text,
                }
                for each in memory.search(self.query, self.limit)
            ]
        }


class MemorySaveArguments(ToolArguments):
    """Save a note that should be remembered in every later conversation."""

    text: str = Field(
        min_length=1, max_length=MAX_NOTE_LENGTH, description="the note, understandable by itself"
    )

    def run(self, memory: "LocalMemory | LocalScope") -> dict[str, Any]:
        return {"saved": memory.save_note(self.text)}


class MemoryCorrectArguments(ToolArguments):
    """Replace the text of a saved note that is wrong or out of date."""

    id: int = Field(description="the note's id, as search gives it")
    text: str = Field(min_length=1, max_length=MAX_NOTE_LENGTH, description="the note as it should be")

    def run(self, memory: "LocalMemory | LocalScope") -> dict[str, Any]:
        if memory.correct_note(self.id, self.text):
            return {"corrected": self.id}
        return {"error": f"there is no note {self.id}"}


class MemoryForgetArguments(ToolArguments):
    """Remove a note, or a remembered turn, from memory for good: text, index and vectors."""

    id: int = Field(description="the id, as search gives it")

    def run(self, memory: "LocalMemory | LocalScope") -> dict[str, Any]:
        if memory.forget_own(self.id):
            return {"forgotten": self.id}
        return {"error": f"nothing is remembered as {self.id}"}


TOOLS: dict[str, type[ToolArguments]] = {
    "memory_search": MemorySearchArguments,
    "memory_save": MemorySaveArguments,
    "memory_correct": MemoryCorrectArguments,
    "memory_forget": MemoryForgetArguments,
}
