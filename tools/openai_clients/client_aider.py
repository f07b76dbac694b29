# mypy: ignore-errors
"""aider: the command, with a file that it is to change. It has no tools of its own: an edit is text."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from steps import BASE, HELLO, KEY, MODEL, expect, run

COMMAND = str(Path(sys.executable).parent / "aider")
PLAIN = (
    "--no-git",
    "--yes-always",
    "--no-check-update",
    "--no-show-model-warnings",
    "--no-analytics",
    "--no-pretty",
    "--no-show-release-notes",
    "--no-detect-urls",
)


def aider(folder, *arguments):
    environment = {**os.environ, "OPENAI_API_BASE": BASE, "OPENAI_API_KEY": KEY, "HOME": folder}
    ended = subprocess.run(
        [COMMAND, "--model", f"openai/{MODEL}", "--edit-format", "whole", *PLAIN, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
    )
    return ended.stdout + ended.stderr


def chat(*more):
    with tempfile.TemporaryDirectory() as folder:
        return expect(aider(folder, "--message", HELLO, *more), "Hello from the model")


def edit():
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "greeting.txt"
        file.write_text("good night\n")
        said = aider(folder, "--message", "Write good morning into greeting.txt.", "greeting.txt")
        return expect(file.read_text() + said, "good morning")


run(
    chat=lambda: chat("--no-stream"),
    stream=lambda: chat("--stream"),
    form=edit,
)
