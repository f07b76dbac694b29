"""The page's modules without a browser: the pure ones in Node, and the vendored files by their hashes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.vendor import MANIFEST, PACKAGES, VENDOR, altered

HERE = Path(__file__).parent
PAGE = VENDOR.parent
NEEDED = "REQUIRE_BROWSER"


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        reason = "node is not installed"
        if os.environ.get(NEEDED):
            pytest.fail(f"{reason} ({NEEDED} is set, so this is a failure)")
        pytest.skip(reason)
    return found


@pytest.mark.parametrize("name", sorted(path.name for path in (HERE / "js").glob("*.test.mjs")))
def test_a_pure_module_does_what_its_own_tests_say(node: str, name: str) -> None:
    ran = subprocess.run(
        [node, "--test", str(HERE / "js" / name)],
        env={**os.environ, "HOLDFAST_PAGE": f"{PAGE.as_uri()}/"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "# pass 0" not in ran.stdout


def test_the_vendored_files_are_as_they_were_fetched() -> None:
    assert altered() == []


def test_a_changed_a_missing_and_an_extra_file_are_noticed(tmp_path: Path) -> None:
    copy = tmp_path / "vendor"
    shutil.copytree(VENDOR, copy)
    (copy / "base.js").write_text("changed", encoding="utf-8")
    (copy / "LICENSES.txt").unlink()
    (copy / "highlight" / "extra.js").write_text("", encoding="utf-8")
    assert altered(copy) == ["LICENSES.txt", "base.js", "highlight/extra.js"]


def test_every_package_has_its_licence_and_is_in_the_manifest() -> None:
    licences = (VENDOR / "LICENSES.txt").read_text(encoding="utf-8")
    manifest = (VENDOR / MANIFEST).read_text(encoding="utf-8")
    for package in PACKAGES:
        assert f"{package.name} {package.version} ({package.licence})" in licences
        assert package.integrity in manifest


def test_every_module_says_what_it_owns() -> None:
    for path in PAGE.glob("*.js"):
        assert path.read_text(encoding="utf-8").startswith("// Owns "), path.name
