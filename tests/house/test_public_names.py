"""`holdfast.__all__` is the promise: the names are pinned, load on use, and cost nothing before."""

import json
import subprocess
import sys

import pytest

import holdfast

PUBLIC_NAMES = [
    "Agent",
    "Host",
    "MemoryManager",
    "MemoryProvider",
    "SessionDB",
    "SessionLifecycle",
    "Settings",
    "__version__",
    "tool",
]


def test_the_public_names_are_exactly_these() -> None:
    assert holdfast.__all__ == PUBLIC_NAMES


@pytest.mark.parametrize("name", PUBLIC_NAMES)
def test_each_public_name_can_be_imported(name: str) -> None:
    assert getattr(holdfast, name) is not None
    assert name in dir(holdfast)


def test_an_unknown_name_is_an_attribute_error() -> None:
    name = "Sessions"
    with pytest.raises(AttributeError, match="no attribute 'Sessions'"):
        getattr(holdfast, name)


def test_importing_holdfast_imports_no_third_party_module() -> None:
    script = (
        "import sys, json; before = set(sys.modules); import holdfast;"
        "print(json.dumps(sorted({name.split('.')[0] for name in set(sys.modules) - before})))"
    )
    child = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    loaded = set(json.loads(child.stdout))
    assert loaded - sys.stdlib_module_names == {"holdfast"}
