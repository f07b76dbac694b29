"""Plays a working session of 15 turns on a real terminal, and draws what a person sees of it, page by page.

`python -m tools.work_session FOLDER` writes `dark-1.svg`, `light-1.svg` and so on. The model is scripted: it
reads, plans, edits, fails a test and mends it. docs/terminal.md shows two of the pictures.
"""

# ruff: noqa: RUF001 - Greek letters are meant

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import which
from typing import Any

from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI, TerminalTheme

from tests.cli.real_terminal import Home, Terminal
from tests.cli.terminal_screen import TerminalScreen
from tools.demo import drawn

ROWS, COLUMNS = 46, 96
ESCAPE, OPEN = "\x1b", "\x0f"
LONG = 120.0
SHOP = '''"""Prices of a small shop."""


def total(prices: list[float]) -> float:
    """The sum of an order."""
    return sum(prices)
'''
TESTS = """import unittest

from shop import total


class Prices(unittest.TestCase):
    def test_small_orders_cost_their_sum(self):
        self.assertEqual(total([20, 30]), 50)

    def test_from_100_on_a_tenth_is_taken_off(self):
        self.assertEqual(total([60, 40]), 90)


if __name__ == "__main__":
    unittest.main()
"""
FIRST_TRY = """    sum_ = sum(prices)
    return sum_ * 0.9 if sum_ > 100 else sum_
"""
MENDED = """    sum_ = sum(prices)
    return sum_ * 0.9 if sum_ >= 100 else sum_
"""
UNITTEST = "python3 -m unittest test_shop.py 2>&1"
ANSWER = """## What is here

| file | what it holds |
|---|---|
| `shop.py` | `total`, the price of an order |
| `test_shop.py` | two tests, one of which is **not met yet** |

The second test wants a discount that [nobody has written](https://example.org/shop/issues/7) so far."""
FORMULA = """The price $p$ of an order with the sum $s$ is

$$
p = \\begin{cases} 0.9 \\cdot s & s \\ge 100 \\\\ s & \\text{else} \\end{cases}
$$

In Python:

```python
def total(prices: list[float]) -> float:
    \"\"\"The sum of an order,
    less a tenth from 100 on.\"\"\"
    return sum_ * 0.9 if (sum_ := sum(prices)) >= 100 else sum_
```

- it is monotone everywhere but at 100
- [x] both tests hold"""
WIDE = """| 言語 | greeting | width |
|---|---|---:|
| 日本語 | こんにちは、世界 | 16 |
| Ελληνικά | Γειά σου Κόσμε | 14 |
| English | Hello, world | 12 |"""
README = "# Shop\n\n" + "".join(
    f"## Part {number}\n\nWhat part {number} is for.\n\n" for number in range(1, 7)
)
SHORT_README = "# Shop\n\n## Part 1\n\nWhat part 1 is for.\n"


def call(tool: str, **arguments: object) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments}


def plan(*states: str) -> dict[str, Any]:
    texts = ("Read the code and its tests", "Write the discount", "Run the tests")
    return call(
        "todo", items=[{"text": text, "state": state} for text, state in zip(texts, states, strict=True)]
    )


def script(outside: Path) -> list[Any]:
    """What the model answers, in the order of the turns below."""
    edit = call("edit_file", path="shop.py", old="    return sum(prices)\n", new=FIRST_TRY)
    mend = call("edit_file", path="shop.py", old=FIRST_TRY, new=MENDED)
    boundary = "The sum is exactly 100 in the test, so the comparison must include it: >= instead of >."
    return [
        *(
            call("list_folder"),
            call("read_file", path="shop.py"),
            [ANSWER, {"tokens": {"input": 4210, "output": 96}}],
        ),
        *(plan("done", "in_progress", "pending"), edit, call("run_command", command=UNITTEST)),
        *([{"reasoning": boundary}, "The test is right, my comparison was not.", mend],),
        *(call("run_command", command=UNITTEST), plan("done", "done", "done"), "Both tests pass now."),
        FORMULA,
        "Take a tenth off orders from 100 on",
        *(
            call("run_command", command='git add -A && git commit -qm "Take a tenth off from 100 on"'),
            "Committed.",
        ),
        ["Once upon a time a ship left the harbour at dawn, ", LONG, "and never came back."],
        *(
            call("run_command", command="for i in $(seq 1 30); do echo packing part $i; sleep 0.1; done"),
            "Packed.",
        ),
        "It is version 1.1 now, as you said meanwhile.",
        *(
            call("write_file", path=str(outside), text="version = 1.1\nowner = shop\n"),
            "I left that file as it is.",
        ),
        *(
            call("ask_user", question="Which greeting shall I use?", choices=["plain", "in three languages"]),
            WIDE,
        ),
        *(call("write_file", path="greetings.md", text=WIDE + "\n"), "Written to greetings.md."),
        *(call("write_file", path="README.md", text=README), "The README has a section for each function."),
        *(call("write_file", path="README.md", text=SHORT_README), "It is short now."),
        *(call("run_command", command=UNITTEST), "They still pass."),
        "You are welcome.",
    ]


def asked(said: str, *texts: str) -> Callable[[Terminal], None]:
    """A turn that is asked for and waited for."""

    def play(terminal: Terminal) -> None:
        terminal.type(said)
        terminal.see(f"> {said}", *texts, "ready")

    return play


def allowed(said: str, answer: str, *texts: str) -> Callable[[Terminal], None]:
    """A turn in which something is asked."""

    def play(terminal: Terminal) -> None:
        terminal.type(said)
        terminal.see(f"> {said}", " >", "waits for you")
        terminal.type(answer)
        terminal.see(f"> {said}", *texts, "ready")

    return play


def interrupted(terminal: Terminal) -> None:
    terminal.type("Tell me a story about a ship.")
    terminal.see("harbour at dawn")
    terminal.key(ESCAPE)
    terminal.see("interrupted", "ready")


def own_command(terminal: Terminal) -> None:
    terminal.type("!git status --short")
    terminal.see("shop.py", "[a]dd its output")
    terminal.type("a")
    terminal.see("goes along with your next message")
    asked("Write one line for the commit.", "Take a tenth off")(terminal)


def queued(terminal: Terminal) -> None:
    terminal.type("Pack the release.")
    terminal.see("Allow this command", "y, n or always")
    terminal.type("y")
    terminal.see("packing part 3")
    terminal.type("Call it version 1.1.")
    terminal.see("queued: Call it version 1.1.")
    terminal.see("Packed.", "> Call it version 1.1.", "as you said", "ready")


def commands(*lines: tuple[str, str]) -> Callable[[Terminal], None]:
    def play(terminal: Terminal) -> None:
        for line, expected in lines:
            terminal.type(line)
            terminal.see(f"> {line}", expected)

    return play


def taken_back(terminal: Terminal) -> None:
    terminal.type("/undo")
    terminal.see("changed files:", "created greetings.md", "it and the [f]iles")
    terminal.type("f")
    terminal.see("Taken back: Keep it in a file.", "removed greetings.md", "ready")


def opened(terminal: Terminal) -> None:
    terminal.key(OPEN)
    terminal.see("q closes")
    terminal.key("q")
    terminal.see("ready")


TURNS: Sequence[Callable[[Terminal], None]] = (
    asked("What is in this repository?", "nobody has written"),
    allowed(
        "Write the discount that the test wants.", "always", "FAILED (failures=1)", "Both tests pass now."
    ),
    asked("Give me the formula.", "both tests hold"),
    own_command,
    allowed("Commit it.", "y", "Committed."),
    interrupted,
    queued,
    allowed("Set the version in the file outside.", "n", "I left that file as it is."),
    allowed("Add a greeting.", "2", "Hello, world"),
    asked("Keep it in a file.", "Written to greetings.md."),
    commands(("/diff", "created greetings.md"), ("/cost", "this conversation:")),
    taken_back,
    asked("Write a README.", "a section for each function"),
    asked("Shorter!", "It is short now."),
    opened,
    asked("Do the tests still pass?", "They still pass."),
    commands(("/rename The discount", "is called"), ("/status", "workspace:")),
    asked("Thanks!", "You are welcome."),
)


def git(folder: Path, *words: str) -> None:
    subprocess.run([which("git") or "git", *words], cwd=folder, check=True)


def play(folder: Path, theme: str) -> TerminalScreen:
    """Hold the conversation in a new repository; what was shown of it."""
    home = Home(folder)
    home.settings["HOLDFAST_TERMINAL_THEME"] = theme
    outside = folder / "outside.toml"
    outside.write_text("version = 1.0\nowner = shop\n", encoding="utf-8")
    home.script(script(outside))
    for name, text in (("shop.py", SHOP), ("test_shop.py", TESTS)):
        (home.project / name).write_text(text, encoding="utf-8")
    git(home.project, "init", "-q")
    git(home.project, "config", "user.name", "A Person")
    git(home.project, "config", "user.email", "person@example.org")
    git(home.project, "add", "-A")
    git(home.project, "commit", "-qm", "A shop")
    terminal = home.terminal("chat", rows=ROWS, columns=COLUMNS)
    terminal.see("ready")
    for turn in TURNS:
        turn(terminal)
    shown = terminal.screen
    terminal.kill()
    return shown


def pages(screen: TerminalScreen) -> list[range]:
    """The rows of the whole conversation, a window at a time."""
    rows = len(screen.rows)
    return [range(start, min(start + ROWS, rows)) for start in range(0, rows, ROWS)]


def main() -> int:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", nargs="?", default="terminal-pictures", help="where the pictures go")
    target = Path(options.parse_args().folder)
    target.mkdir(parents=True, exist_ok=True)
    themes: dict[str, TerminalTheme] = {"dark": MONOKAI, "light": DEFAULT_TERMINAL_THEME}
    for name, theme in themes.items():
        with tempfile.TemporaryDirectory() as folder:
            screen = play(Path(folder), name)
        for number, rows in enumerate(pages(screen), start=1):
            path = target / f"{name}-{number}.svg"
            path.write_text(drawn(screen, rows, theme=theme), encoding="utf-8")
            sys.stdout.write(f"{path} is drawn\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
