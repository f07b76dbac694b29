"""One conversation on three surfaces: what the recorded run says, and the run itself."""

import re
from pathlib import Path

import pytest

from tools.three_surfaces import ANSWERS, PAGE, SAID, Played, play, written


def test_the_recorded_run_has_every_message_once_on_each_surface() -> None:
    parts = re.split(r"^## .*$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    _, editor, terminal, page, loaded, record = parts
    assert editor.count(ANSWERS[0]) == 1
    assert "run_command cat greeting.txt" in editor
    for said, answered in zip(SAID[:2], ANSWERS[:2], strict=True):
        assert terminal.count(said) == terminal.count(answered) == 1
    for said, answered in zip(SAID, ANSWERS, strict=True):
        assert page.count(said) == page.count(answered) == 1
        assert loaded.count(said) == loaded.count(answered) == 1
    assert [line for line in record.splitlines() if line in SAID] == list(SAID)
    assert "`HELLO`" in record


def test_what_was_played_is_what_is_written() -> None:
    played = Played(["agent: a"], "> t", ["You: p"], ["agent: l"], ["one", "two"], "x\n")
    text = written(played)
    for each in ("agent: a", "> t", "You: p", "agent: l", "one\ntwo", "holds `x`"):
        assert each in text


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_the_conversation_goes_from_the_editor_to_the_terminal_to_the_page(tmp_path: Path) -> None:
    played = play(tmp_path)
    assert played.record == list(SAID)
    assert played.file == "HELLO\n"
    for said, answered in zip(SAID, ANSWERS, strict=True):
        assert "\n".join(played.loaded).count(said) == 1
        assert "\n".join(played.loaded).count(answered) == 1
