"""Providers that can't be used are reported by name and left out; the others work."""

from pathlib import Path

import pytest

from holdfast.providers.loader import load_providers

GOOD = """
from holdfast.memory import MemoryProvider

class Good(MemoryProvider):
    name = "good"
    def is_available(self): return True
    def initialize(self, session_id, **kwargs): pass
    def get_tool_schemas(self): return []
"""


def test_a_class_is_loaded_by_its_module_and_name() -> None:
    loaded = load_providers(["holdfast.testing.providers:RecordingProvider"])
    assert [each.gated.name for each in loaded.ready] == ["recording"]
    assert loaded.problems == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nonsense", "no installed package offers it"),
        ("no_such_module:Thing", "ModuleNotFoundError"),
        ("holdfast.testing.providers:Missing", "AttributeError"),
        ("holdfast.core.ids:encode", "TypeError"),
        ("holdfast.memory:MemoryProvider", "abstract"),
        ("builtins:dict", "it lacks is_available"),
        ("", "no installed package offers it"),
        (":", "ValueError"),
    ],
)
def test_what_is_no_provider_is_reported_by_name(name: str, problem: str) -> None:
    loaded = load_providers([name, "holdfast.testing.providers:RecordingProvider"])
    assert [each.gated.name for each in loaded.ready] == ["recording"]
    [found] = loaded.problems
    assert found.provider == name
    assert problem in str(found)


def test_plugins_in_a_folder_are_loaded_and_broken_ones_reported(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__init__.py").write_text(GOOD.replace('"good"', '"in a folder"'))
    (tmp_path / "broken.py").write_text("def (")
    (tmp_path / "leaves.py").write_text("raise SystemExit(1)")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "nameless.py").write_text(GOOD.replace('"good"', "None"))
    (tmp_path / "shy.py").write_text(GOOD.replace("return True", "return False"))
    (tmp_path / "odd.py").write_text(GOOD.replace("return []", "return 'tools'"))
    (tmp_path / "twin.py").write_text(GOOD)
    (tmp_path / "_private.py").write_text("raise RuntimeError")
    (tmp_path / "notes.txt").write_text("not a plugin")
    loaded = load_providers([], tmp_path)
    assert [each.gated.name for each in loaded.ready] == ["in a folder", "good"]
    said = {each.provider: str(each) for each in loaded.problems}
    assert "SyntaxError" in said["broken"]
    assert "SystemExit" in said["leaves"]
    assert "has none" in said["empty"]
    assert "its name is None" in said["nameless"]
    assert "not available here" in said["shy"]
    assert "list of schemas" in said["odd"]
    assert "already" in said["twin"]
    assert len(said) == 7


def test_a_folder_that_is_not_there_holds_no_plugins(tmp_path: Path) -> None:
    loaded = load_providers([], tmp_path / "missing")
    assert (loaded.ready, loaded.problems) == ([], [])


@pytest.mark.parametrize(
    "importing",
    [
        "from . import helper",
        "from .helper import NAME",
        "from .deep import inner",
        "from .deep.inner import NAME",
        "import importlib; importlib.import_module('.helper', __package__)",
    ],
)
@pytest.mark.parametrize("for_hermes", [False, True])
def test_a_package_imports_its_own_modules_in_every_way(
    tmp_path: Path, importing: str, for_hermes: bool
) -> None:
    package = tmp_path / "packed"
    (package / "deep").mkdir(parents=True)
    provider = GOOD
    if for_hermes:
        provider = GOOD.replace("holdfast.memory", "agent.memory_provider")
        (package / "plugin.yaml").write_text("name: good\n")
    (package / "__init__.py").write_text(f"{importing}\n{provider}")
    (package / "helper.py").write_text("NAME = 1")
    (package / "deep/__init__.py").write_text("from .. import helper")
    (package / "deep/inner.py").write_text("from ..helper import NAME")
    loaded = load_providers([], tmp_path, folder=tmp_path / "data", environment={})
    assert loaded.left_out == []
    assert [each.gated.name for each in loaded.ready] == ["hermes-good" if for_hermes else "good"]
