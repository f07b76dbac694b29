"""The agent's tools: search memory, save a note, correct one, forget one."""

import json
from typing import Any, Protocol

from pydantic import Field, ValidationError

from holdfast.core.errors import InvalidInput
from holdfast.providers.local.recall import FoundPassage
from holdfast.providers.local.store import MAX_NOTE_LENGTH
from holdfast.providers.tool_arguments import ToolArguments, validation_message


class MemorySearchArguments(ToolArguments):
    """Search what is remembered of all earlier conversations, and the saved notes."""

    query: str = Field(description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")


class MemorySaveArguments(ToolArguments):
    """Save a note that should be remembered in every later conversation."""

    text: str = Field(
        min_length=1, max_length=MAX_NOTE_LENGTH, description="the note, understandable by itself"
    )


class MemoryCorrectArguments(ToolArguments):
    """Replace the text of a saved note that is wrong or out of date."""

    id: int = Field(description="the note's id, as search gives it")
    text: str = Field(min_length=1, max_length=MAX_NOTE_LENGTH, description="the note as it should be")


class MemoryForgetArguments(ToolArguments):
    """Remove a note, or a remembered turn, from memory for good: text, index and vectors."""

    id: int = Field(description="the id, as search gives it")


TOOLS: dict[str, type[ToolArguments]] = {
    "memory_search": MemorySearchArguments,
    "memory_save": MemorySaveArguments,
    "memory_correct": MemoryCorrectArguments,
    "memory_forget": MemoryForgetArguments,
}


class SupportsMemoryTools(Protocol):
    """The methods that the tools call."""

    def search(self, query: str, limit: int = 10) -> list[FoundPassage]: ...
    def save_note(self, text: str) -> int: ...
    def correct_note(self, note_id: int, text: str) -> bool: ...
    def forget(self, memory_id: int) -> bool: ...
    def dated(self, memory: FoundPassage) -> str: ...


def run_tool(target: SupportsMemoryTools, name: str, args: dict[str, Any]) -> str:
    """Run one tool. Invalid arguments are returned as an error text for the model."""
    try:
        answer = _run(target, TOOLS[name].model_validate(args))
    except ValidationError as cause:
        answer = {"error": validation_message(cause)}
    except InvalidInput as cause:
        answer = {"error": str(cause)}
    return json.dumps(answer, ensure_ascii=False)


def _run(target: SupportsMemoryTools, arguments: ToolArguments) -> dict[str, Any]:
    match arguments:
        case MemorySearchArguments(query=query, limit=limit):
            return {"found": [_passage_json(target, memory) for memory in target.search(query, limit)]}
        case MemorySaveArguments(text=text):
            return {"saved": target.save_note(text)}
        case MemoryCorrectArguments(id=note_id, text=text):
            done = target.correct_note(note_id, text)
            return {"corrected": note_id} if done else {"error": f"there is no note {note_id}"}
        case MemoryForgetArguments(id=memory_id):
            done = target.forget(memory_id)
            return {"forgotten": memory_id} if done else {"error": f"nothing is remembered as {memory_id}"}
        case _:
            raise InvalidInput(f"no tool takes {type(arguments).__name__}")


def _passage_json(target: SupportsMemoryTools, memory: FoundPassage) -> dict[str, Any]:
    return {
        "id": memory.id,
        "kind": memory.kind,
        "when": target.dated(memory),
        "speaker": memory.speaker,
        "text": memory.text,
    }
