"""The build refuses a file of more than 600 lines."""

from pathlib import Path

import pytest

from tools import file_sizes


@pytest.mark.parametrize("suffix", [".py", ".sql", ".js", ".css"])
def test_a_file_of_601_lines_is_refused_by_name(
    tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / f"long{suffix}"
    long.write_text("\n" * 601)
    assert file_sizes.main([str(tmp_path)]) == 1
    assert f"{long}: 601 lines" in capsys.readouterr().err


def test_a_file_of_600_lines_passes(tmp_path: Path) -> None:
    (tmp_path / "full.py").write_text("\n" * 600)
    assert file_sizes.main([str(tmp_path)]) == 0


def test_a_long_file_of_another_kind_passes(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("\n" * 5000)
    assert file_sizes.main([str(tmp_path)]) == 0
