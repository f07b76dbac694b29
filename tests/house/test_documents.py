"""The documents name what the code has."""

from pathlib import Path

import pytest

from holdfast.core.events import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_every_event_is_in_the_description_of_the_api(kind: str, checkout: Path) -> None:
    assert f"| `{kind}` |" in (checkout / "docs" / "http-api.md").read_text(encoding="utf-8")
