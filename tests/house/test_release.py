"""A release is refused unless its changelog is written and two builds give the same bytes."""

from pathlib import Path

import pytest

from tools.release import NotReleasable, project_version, require_same, require_section, write_sbom


def test_the_changelog_has_a_section_for_the_version_of_the_package(checkout: Path) -> None:
    require_section(project_version(), (checkout / "CHANGELOG.md").read_text(encoding="utf-8"))


def test_a_version_without_its_section_is_refused() -> None:
    changelog = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-17\n"
    require_section("0.2.0", changelog)
    with pytest.raises(NotReleasable, match=r"needs a section `## \[0.3.0\]"):
        require_section("0.3.0", changelog)


def test_builds_that_differ_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    one.write_bytes(b"same")
    other.write_bytes(b"same")
    require_same({"a.whl": one}, {"a.whl": other})
    other.write_bytes(b"not the same")
    with pytest.raises(NotReleasable, match=r"differ: a.whl"):
        require_same({"a.whl": one}, {"a.whl": other})
    with pytest.raises(NotReleasable, match=r"differ: a.whl"):
        require_same({"a.whl": one}, {})


@pytest.mark.slow
def test_the_bill_of_materials_names_python_packages_and_the_libraries_of_the_page(tmp_path: Path) -> None:
    target = tmp_path / "bill.json"
    assert write_sbom(target) > 20
    text = target.read_text(encoding="utf-8")
    assert '"purl": "pkg:npm/preact@' in text
    assert "pkg:pypi/pydantic@" in text
    assert "pkg:pypi/pytest@" not in text
