"""Adapters of installed packages are found by their entry point and made from their configuration."""

from pathlib import Path

import pytest

from holdfast.gateway.adapter_loader import AdapterInvalid, known_adapters, make_adapter
from holdfast.gateway.contract import AdapterTraits
from holdfast.testing.memory_adapter import MemoryAdapter
from holdfast.testing.memory_platform import MemoryPlatform

MODULE = """
from holdfast.testing.memory_adapter import MemoryAdapter
from holdfast.testing.memory_platform import MemoryPlatform

class Board(MemoryAdapter):
    def __init__(self, config, folder):
        super().__init__(MemoryPlatform().server)
        self.made_with = (config.text("url"), config.secret("token").reveal(), folder)

    @staticmethod
    def get_config_schema():
        return [
            {"key": "url", "default": "https://board.example"},
            {"key": "token", "secret": True, "required": True, "env_var": "BOARD_TOKEN"},
        ]

def plain(): return MemoryPlatform().adapter()

class Odd:
    get_config_schema = staticmethod(lambda: [{"description": "no key"}])
"""


class NoTraits(MemoryAdapter):
    def __init__(self) -> None:
        super().__init__(MemoryPlatform().server)
        self.traits = None  # type: ignore[assignment]


class NoMethods:
    traits = AdapterTraits(100, "key")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an installed package that offers adapters."""
    (tmp_path / "board_of_tests.py").write_text(MODULE, encoding="utf-8")
    facts = tmp_path / "board_of_tests-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: board-of-tests\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(
        "[holdfast.chat_adapters]\nboard = board_of_tests:Board\nplain = board_of_tests:plain\n"
        "odd = board_of_tests:Odd\ngone = board_of_tests:Gone\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_an_adapter_gets_its_configuration_and_its_folder(package: Path) -> None:
    assert {"board", "plain"} <= set(known_adapters())
    made = make_adapter("board", package, {"token": "stored"})
    assert getattr(made, "made_with", None) == ("https://board.example", "stored", package)
    made = make_adapter("board", package, {"token": "stored"}, {"BOARD_TOKEN": "of the environment"})
    assert getattr(made, "made_with", None) == ("https://board.example", "of the environment", package)
    assert make_adapter("plain", package).traits.repeat == "key"
    assert make_adapter("board_of_tests:plain", package).traits.repeat == "key"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("board", "needs a value for token"),
        ("no such name", "no installed package offers it .*plain.*module:Name"),
        ("gone", "can't be imported"),
        ("odd", "needs a 'key'"),
        ("no_such_module:Name", "can't be imported: No module"),
        (f"{__name__}:NoTraits", "no AdapterTraits"),
        (f"{__name__}:NoMethods", "it has no close, confirm_press, connect, .*show_typing"),
    ],
)
def test_what_is_wrong_with_an_adapter_is_said(package: Path, name: str, said: str) -> None:
    with pytest.raises(AdapterInvalid, match=said) as refused:
        make_adapter(name, package)
    assert refused.value.name == name
