"""The picture in the README is what the program shows today."""

from pathlib import Path

import pytest

from tools.demo import PICTURE, drawn, play

pytestmark = pytest.mark.slow  # plays a chat on a terminal


def test_the_picture_is_what_a_person_sees_today(tmp_path: Path, checkout: Path) -> None:
    assert drawn(play(tmp_path)) == PICTURE.read_text(encoding="utf-8"), "`make demo` draws it anew"
    assert "docs/demo.svg" in (checkout / "README.md").read_text(encoding="utf-8")
