"""The agent's tools: search memory, save a note, correct one, forget one."""

import json
from typing import Any, Protocol

from pydantic import Field, ValidationError

from holdfast.core.errors import InvalidInput
from holdfast.memory.providers.local.recall import Memory
from holdfast.memory.providers.local.store import LONGEST_NOTE
from holdfast.memory.providers.tool_calls import Arguments, mistakes


class Search(Arguments):
    """Search what is remembered of all earlier conversations, and the saved notes."""

    query: str = Field(description="what to look for, in plain words")
    limit: int = Field(default=10, ge=1, le=50, description="how many at most")


class Save(Arguments):
    """Save a note that should be remembered in every later conversation."""

    text: str = Field(min_length=1, max_length=LONGEST_NOTE, description="the note, understandable by itself")


class Correct(Arguments):
    """Replace the text of a saved note that is wrong or out of date."""

    id: int = Field(description="the note's id, as search gives it")
    text: str = Field(min_length=1, max_length=LONGEST_NOTE, description="the note as it should be")


class Forget(Arguments):
    """Remove a note, or a remembered turn, from memory for good: text, index and vectors."""

    id: int = Field(description="the id, as search gives it")


TOOLS: dict[str, type[Arguments]] = {
    "memory_search": Search,
    "memory_save": Save,
    "memory_correct": Correct,
    "memory_forget": Forget,
}


class Notebook(Protocol):
    """What the tools work on."""

    def search(self, query: str, limit: int = 10) -> list[Memory]: ...
    def save_note(self, text: str) -> int: ...
    def correct_note(self, note_id: int, text: str) -> bool: ...
    def forget(self, memory_id: int) -> bool: ...
    def dated(self, memory: Memory) -> str: ...


def run_tool(notebook: Notebook, name: str, args: dict[str, Any]) -> str:
    """Run one tool. What the model got wrong comes back as text that says so."""
    try:
        answer = _run(notebook, TOOLS[name].model_validate(args))
    except ValidationError as cause:
        answer = {"error": mistakes(cause)}
    except InvalidInput as cause:
        answer = {"error": str(cause)}
    return json.dumps(answer, ensure_ascii=False)


def _run(notebook: Notebook, arguments: Arguments) -> dict[str, Any]:
    match arguments:
        case Search(query=query, limit=limit):
            return {"found": [_shown(notebook, memory) for memory in notebook.search(query, limit)]}
        case Save(text=text):
            return {"saved": notebook.save_note(text)}
        case Correct(id=note_id, text=text):
            done = notebook.correct_note(note_id, text)
            return {"corrected": note_id} if done else {"error": f"there is no note {note_id}"}
        case Forget(id=memory_id):
            done = notebook.forget(memory_id)
            return {"forgotten": memory_id} if done else {"error": f"nothing is remembered as {memory_id}"}
        case _:
            raise InvalidInput(f"no tool takes {type(arguments).__name__}")


def _shown(notebook: Notebook, memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "kind": memory.kind,
        "when": notebook.dated(memory),
        "speaker": memory.speaker,
        "text": memory.text,
    }
