"""Fixtures for the library: programs as a developer writes them, against a server that plays a script."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from holdfast.testing.scripted_server import ScriptedServer
from tests.agent.conftest import wait

__all__ = ["wait"]


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A developer's machine without keys, and with folders of the test's own."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Any]], ScriptedServer]:
    """An OpenAI-compatible server, to be entered; programs find it by OPENAI_BASE_URL."""

    class Announced(ScriptedServer):
        async def __aenter__(self) -> Self:
            await super().__aenter__()
            monkeypatch.setenv("OPENAI_BASE_URL", self.base_url)
            return self

    return Announced
