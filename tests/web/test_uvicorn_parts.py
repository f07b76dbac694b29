"""The private parts of uvicorn on which our connection and server are built are as they were."""

import hashlib
import importlib.metadata
from pathlib import Path
from types import ModuleType

import pytest
import uvicorn.server
from packaging.requirements import Requirement
from uvicorn.protocols.http import flow_control, httptools_impl

READ: dict[ModuleType, str] = {
    flow_control: "d39d16560df512f3ce907c329c2a0c3f5cd7165fef3b753876eae5739bf2a785",
    httptools_impl: "1d4e1c579df4168433a61a01f10c628b31c1790e72dd9769d2b8633b22214033",
    uvicorn.server: "c1be9d133467a42ab88d7168e408ef5a90257661a901899426214a3d1fc2d026",
}


@pytest.mark.parametrize("module", READ, ids=lambda module: module.__name__)
def test_what_is_built_on_has_not_changed(module: ModuleType) -> None:
    assert module.__file__ is not None
    found = hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()
    assert found == READ[module], (
        f"{module.__name__} of uvicorn {uvicorn.__version__} is not what our connection was written for: "
        "read what changed, run tests/web/api, then write the new hash here and the cap in pyproject.toml"
    )


def test_the_next_version_is_not_taken_unread() -> None:
    requirements = map(Requirement, importlib.metadata.requires("holdfast-agent") or [])
    uvicorns = next(each for each in requirements if each.name == "uvicorn")
    assert uvicorn.__version__ in uvicorns.specifier
    major, minor = uvicorn.__version__.split(".")[:2]
    assert f"{major}.{int(minor) + 1}.0" not in uvicorns.specifier
