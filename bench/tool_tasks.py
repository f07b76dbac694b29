"""Twenty small tasks for a model with tools, each with files to begin with and a check of what came of it.

They are what people ask first: read, write, change, count, find, run. `evaluate.py` runs them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.sessions import SessionDB


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check looks at: the folder, the answer, and the store."""

    folder: Path
    answer: str
    db: SessionDB

    def text(self, name: str) -> str:
        """A file's content; empty when it is not there."""
        path = self.folder / name
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""

    def says(self, *words: str) -> bool:
        """Whether the answer has all of these, in any case."""
        answer = self.answer.casefold()
        return all(word.casefold() in answer for word in words)


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `check` says whether it is solved."""

    name: str
    prompt: str
    check: Callable[[Outcome], bool]
    files: Mapping[str, str] = field(default_factory=dict)


NUMBERS = "12\n7\n30\n1\n"
TABLE = "name,age\nAnn,34\nBen,41\nCleo,29\nDan,55\n"

TASKS = (
    Task(
        "read",
        "What is the code word in notes.txt?",
        lambda e: e.says("pelican"),
        {"notes.txt": "Buy milk.\nThe code word is pelican.\n"},
    ),
    Task(
        "write",
        "Create a file hello.txt that contains the word hello.",
        lambda e: "hello" in e.text("hello.txt").casefold(),
    ),
    Task(
        "edit",
        "In config.ini, change the port from 8080 to 9090.",
        lambda e: "port = 9090" in e.text("config.ini") and "host = local" in e.text("config.ini"),
        {"config.ini": "host = local\nport = 8080\n"},
    ),
    Task("run", "Run the command `echo 4711` and tell me what it printed.", lambda e: e.says("4711")),
    Task("no tool", "What is the capital of France? Answer with one word.", lambda e: e.says("paris")),
    Task(
        "list",
        "Which files are in the current folder? Name them all.",
        lambda e: e.says("alpha.txt", "beta.md"),
        {"alpha.txt": "a\n", "beta.md": "b\n"},
    ),
    Task(
        "count lines",
        "How many lines does data.csv have?",
        lambda e: e.says("5") or e.says("five"),
        {"data.csv": TABLE},
    ),
    Task(
        "sum",
        "Add the numbers in numbers.txt. What is the sum?",
        lambda e: e.says("50"),
        {"numbers.txt": NUMBERS},
    ),
    Task(
        "find in files",
        "Which file contains the word needle?",
        lambda e: e.says("two.txt"),
        {"one.txt": "hay\n", "two.txt": "a needle\n", "three.txt": "more hay\n"},
    ),
    Task(
        "append",
        "Add a line with the text 'call Ann' at the end of todo.txt. Keep the other lines.",
        lambda e: "buy bread" in e.text("todo.txt") and "call Ann" in e.text("todo.txt"),
        {"todo.txt": "buy bread\n"},
    ),
    Task(
        "rename",
        "Rename the file old.txt to new.txt.",
        lambda e: e.text("new.txt") == "content\n" and not (e.folder / "old.txt").exists(),
        {"old.txt": "content\n"},
    ),
    Task(
        "delete",
        "Delete the file junk.tmp.",
        lambda e: not (e.folder / "junk.tmp").exists(),
        {"junk.tmp": "x\n", "keep.txt": "y\n"},
    ),
    Task(
        "folder",
        "Make a folder named reports with a file summary.txt in it that says done.",
        lambda e: "done" in e.text("reports/summary.txt").casefold(),
    ),
    Task(
        "json",
        "Which version does package.json name?",
        lambda e: e.says("3.14.2"),
        {"package.json": '{"name": "tool", "version": "3.14.2"}\n'},
    ),
    Task(
        "typo",
        "README.md has the misspelled word 'recieve'. Correct it to 'receive'.",
        lambda e: "You receive a letter." in e.text("README.md"),
        {"README.md": "# Post\n\nYou recieve a letter.\n"},
    ),
    Task(
        "script",
        "Run script.py with python3 and tell me what it prints.",
        lambda e: e.says("9801"),
        {"script.py": "print(99 * 99)\n"},
    ),
    Task(
        "copy",
        "Copy a.txt to b.txt.",
        lambda e: e.text("b.txt") == "the same\n" == e.text("a.txt"),
        {"a.txt": "the same\n"},
    ),
    Task(
        "two steps",
        "Read start.txt and do what it says. What is the answer?",
        lambda e: e.says("harbour"),
        {"start.txt": "The answer is in the file end.txt.\n", "end.txt": "The answer is: harbour\n"},
    ),
    Task("table", "Who is the oldest person in people.csv?", lambda e: e.says("dan"), {"people.csv": TABLE}),
    Task(
        "seldom tool",
        "Use a schedule to send me the message 'call Ann' tomorrow at 9.",
        lambda e: any("ann" in each.text.casefold() for each in e.db.schedules.all()),
    ),
)
"""The first ones are the simplest: a slow machine runs only these."""
