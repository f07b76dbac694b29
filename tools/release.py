"""Build a release: `make release`. Wheel and source archive, twice and compared, an SBOM and checksums.

The version is that of pyproject.toml; the changelog must have a section for it. Times in the archives are
those of the last commit, so whoever builds the same commit gets the same bytes. Nothing is uploaded or
signed: the steps that need a person's key are printed at the end.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.bootstrap import ROOT, ensure_uv, uv_environment
from tools.page_libraries import locked

DIST = ROOT / "dist"
TARGETS = ("wheel", "sdist")
SUMS = "SHA256SUMS"
SECTION = re.compile(r"^## \[(?P<version>[^\]]+)\] - (?P<day>\d{4}-\d{2}-\d{2})$", re.MULTILINE)


class NotReleasable(Exception):
    """The checkout is not ready for a release. Nothing was written to dist/."""


def project_version(root: Path = ROOT) -> str:
    """The version of pyproject.toml."""
    return str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def require_section(version: str, changelog: str) -> None:
    """Raise `NotReleasable` unless the newest dated section of the changelog is the one of the version."""
    newest = SECTION.search(changelog)
    if newest is None or newest["version"] != version:
        found = newest["version"] if newest else "none"
        raise NotReleasable(
            f"CHANGELOG.md needs a section `## [{version}] - YYYY-MM-DD` first; the newest is {found}"
        )


def require_committed() -> None:
    """Raise `NotReleasable` when the checkout differs from its last commit."""
    changed = _git("status", "--porcelain")
    if changed:
        raise NotReleasable(f"these files are not committed:\n{changed}")


def build(epoch: str, into: Path) -> dict[str, Path]:
    """Build every target; returns the files by their names."""
    for target in TARGETS:
        command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
        environment = {**os.environ, "SOURCE_DATE_EPOCH": epoch}  # noqa: TID251 - hatchling reads it
        subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.DEVNULL)
    return {file.name: file for file in sorted(into.iterdir())}


def digest(file: Path) -> str:
    """The SHA-256 of a file."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def require_same(first: dict[str, Path], second: dict[str, Path]) -> None:
    """Raise `NotReleasable` unless two builds gave the same bytes."""
    different = [
        name for name in first.keys() | second.keys() if not _same(first.get(name), second.get(name))
    ]
    if different:
        raise NotReleasable(f"two builds of one commit differ: {', '.join(sorted(different))}")


def _same(one: Path | None, other: Path | None) -> bool:
    return one is not None and other is not None and digest(one) == digest(other)


def write_sbom(target: Path) -> int:
    """Write what the package and its extras depend on, and the page's libraries; returns how many."""
    command = [str(ensure_uv(sys.executable)), "export", "--frozen", "--no-dev", "--no-default-groups"]
    more = ["--all-extras", "--format", "cyclonedx1.5", "--quiet", "--preview-features", "sbom-export"]
    told = subprocess.run(
        [*command, *more],
        cwd=ROOT,
        env=uv_environment(sys.executable),
        check=True,
        capture_output=True,
        text=True,
    )
    bill = json.loads(told.stdout)
    bill["components"] += [
        {
            "type": "library",
            "bom-ref": f"npm:{each.name}@{each.version}",
            "name": each.name,
            "version": each.version,
            "purl": f"pkg:npm/{each.name.replace('@', '%40')}@{each.version}",
            "licenses": [{"expression": each.license}],
        }
        for each in locked()
    ]
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    return len(bill["components"])


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def release() -> None:
    """Check, build twice, compare, and write dist/."""
    version = project_version()
    require_section(version, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    require_committed()
    epoch = _git("log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        built = build(epoch, Path(one))
        require_same(built, build(epoch, Path(other)))
        shutil.rmtree(DIST, ignore_errors=True)
        DIST.mkdir()
        for file in built.values():
            shutil.copy(file, DIST)
    bill = DIST / f"holdfast_agent-{version}.cdx.json"
    components = write_sbom(bill)
    files = sorted(DIST.iterdir())
    (DIST / SUMS).write_text("".join(f"{digest(file)}  {file.name}\n" for file in files), encoding="utf-8")
    for file in files:
        print(f"{digest(file)[:16]}…  {file.stat().st_size:>9,} bytes  {file.relative_to(ROOT)}")
    print(f"Two builds gave the same bytes; the SBOM lists {components} components.")
    print(
        "What is left, with your own keys:\n"
        f"  git tag --sign v{version}\n"
        f"  gpg --armor --detach-sign dist/{SUMS}\n"
        "  uv publish dist/*.whl dist/*.tar.gz"
    )


if __name__ == "__main__":
    try:
        release()
    except NotReleasable as cause:
        sys.exit(f"No release: {cause}")
