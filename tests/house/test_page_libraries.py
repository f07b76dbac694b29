"""The libraries of the web page: what the lock file says, who installs them, and who notices a change."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.house.stand_ins import stand_in
from tools.bootstrap import PAGE_LIBRARIES, page_is_current
from tools.page_libraries import LICENCES, MANIFEST, altered, locked, npm


def read_json(path: Path) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return parsed


def test_the_lock_file_pins_exactly_what_is_asked_for_and_no_address(checkout: Path) -> None:
    lock = checkout / "package-lock.json"
    asked = read_json(checkout / "package.json")["dependencies"]
    assert {each.name: each.version for each in locked()} == asked
    packages = read_json(lock)["packages"].items()
    assert [name for name, each in packages if "resolved" in each] == []
    assert [name for name, each in packages if name and not each["integrity"].startswith("sha512-")] == []
    assert "registry" not in lock.read_text(encoding="utf-8")


def test_what_is_installed_is_what_is_locked() -> None:
    assert page_is_current()
    assert altered() == []
    manifest = read_json(PAGE_LIBRARIES / MANIFEST)
    licences = (PAGE_LIBRARIES / LICENCES).read_text(encoding="utf-8")
    for package, listed in zip(locked(), manifest["packages"], strict=True):
        assert (listed["name"], listed["integrity"]) == (package.name, package.integrity)
        assert f"{package.name} {package.version} ({package.license})" in licences


def test_a_changed_a_missing_and_an_extra_file_are_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "lib"
    shutil.copytree(PAGE_LIBRARIES, copy)
    (copy / "base.js").write_text("changed", encoding="utf-8")
    (copy / LICENCES).unlink()
    (copy / "highlight" / "extra.js").write_text("", encoding="utf-8")
    assert altered(copy) == [LICENCES, "base.js", "highlight/extra.js"]


def test_the_npm_of_the_machine_is_taken(tmp_path: Path) -> None:
    own = stand_in(tmp_path / "npm", "echo 7.0.1")
    assert npm(str(tmp_path), Path) == [str(own)]


@pytest.mark.parametrize("script", ["echo 6.14.18", "exit 127", None])
def test_without_an_npm_that_reads_the_lock_file_the_one_of_pypi_is_taken(
    tmp_path: Path, script: str | None
) -> None:
    if script:
        stand_in(tmp_path / "npm", script)
    folder = tmp_path / "node"
    assert npm(str(tmp_path), lambda: folder) == [
        str(folder / "bin" / "node"),
        str(folder / "lib/node_modules/npm/bin/npm-cli.js"),
    ]
