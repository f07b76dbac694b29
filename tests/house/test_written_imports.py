"""Imports that an installed package writes are found and tried, also those in functions."""

from pathlib import Path

import pytest

from tools.written_imports import failure, written_imports


def test_imports_in_functions_are_found_and_those_of_the_testing_part_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "testing").mkdir()
    (tmp_path / "testing" / "suite.py").write_text("import pytest\n")
    (tmp_path / "store.py").write_text(
        "import json\n\ndef open():\n    from psycopg.rows import dict_row\n    from . import x\n"
    )
    found = [(file.name, module, name) for file, module, name in written_imports(tmp_path)]
    assert found == [("store.py", "json", ""), ("store.py", "psycopg.rows", "dict_row")]


@pytest.mark.parametrize(
    ("module", "name", "why"),
    [
        ("json", "", ""),
        ("json", "loads", ""),
        ("json", "decoder", ""),
        ("no_such_module", "", "No module named 'no_such_module'"),
        ("json", "no_such_name", "No module named 'json.no_such_name'"),
    ],
)
def test_an_import_that_fails_says_why(module: str, name: str, why: str) -> None:
    assert failure(module, name) == why
