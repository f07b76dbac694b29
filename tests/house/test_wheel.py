"""What is published: wheel and source archive carry the page's libraries, their licences and the notice."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

from tools.bootstrap import PAGE_LIBRARIES
from tools.page_libraries import FILES, JOIN, JOINED, LICENCES, MANIFEST, locked

pytestmark = pytest.mark.slow

LIB = "holdfast/web/page/lib"
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "package.json", "package-lock.json", ".npmrc")


def build(
    root: Path, target: str, into: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def built(root: Path, target: str, into: Path, environment: dict[str, str] | None = None) -> Path:
    ran = build(root, target, into, environment)
    assert ran.returncode == 0, ran.stderr
    return next(into.iterdir())


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(checkout, "wheel", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_carries_every_library_with_its_hash_and_its_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        files = {
            name.removeprefix(f"{LIB}/"): opened.read(name)
            for name in opened.namelist()
            if name.startswith(LIB)
        }
    manifest = json.loads(files[MANIFEST])
    licences = files[LICENCES].decode()
    targets = {target for each in FILES.values() for target in each.values()} - set(JOIN)
    assert set(files) == {MANIFEST, LICENCES, JOINED, *targets}
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert manifest["files"] == {name: value for name, value in hashes.items() if name != MANIFEST}
    assert [each["integrity"] for each in manifest["packages"]] == [each.integrity for each in locked()]
    for package in locked():
        assert f"{package.name} {package.version} ({package.license})" in licences


def test_the_wheel_carries_the_licence_and_the_notice(wheel: Path, checkout: Path) -> None:
    with zipfile.ZipFile(wheel) as opened:
        found = {Path(name).name: opened.read(name) for name in opened.namelist() if "/licenses/" in name}
    assert found == {name: (checkout / name).read_bytes() for name in ("LICENSE", "NOTICE")}


def test_the_page_of_the_wheel_is_served_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    installed = tmp_path / "installed"
    with zipfile.ZipFile(wheel) as opened:
        opened.extractall(installed)  # noqa: S202 - built by this test
    with served(installed, tmp_path) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        base, _, token = link.partition("?token=")
        for name in (JOINED, "highlight/python.js", "temml.js", LICENCES):
            request = urllib.request.Request(  # noqa: S310 - a server of this test
                f"{base}lib/{name}", headers={"Authorization": f"Bearer {token}"}
            )
            with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
                assert answer.read() == (installed / LIB / name).read_bytes()
        process.terminate()
        process.communicate(timeout=30)


def served(package: Path, home: Path) -> "subprocess.Popen[str]":
    """`holdfast web` of the package in that folder, with a scripted model."""
    (home / "project").mkdir()
    (home / "script.json").write_text('["hello"]', encoding="utf-8")
    known = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", "web", "--port", "0"],
        env={
            **known,
            **{name: str(home) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")},
            "PYTHONPATH": str(package),
            "HOLDFAST_MODEL_PROVIDER": "scripted",
            "HOLDFAST_MODEL_NAME": str(home / "script.json"),
            "HOLDFAST_MEMORY_PROVIDERS": "",
        },
        cwd=home / "project",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_server_without_the_libraries_says_what_to_do(checkout: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(
        checkout / "src" / "holdfast",
        package / "holdfast",
        ignore=shutil.ignore_patterns("lib", "__pycache__"),
    )
    with served(package, tmp_path) as process:
        assert process.stdout is not None
        link = process.stdout.readline().strip()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(link, timeout=20)  # noqa: S310 - a server of this test
        assert refused.value.code == 503
        assert "run `make sync`" in refused.value.read().decode()
        process.terminate()
        _, said = process.communicate(timeout=30)
    assert "run `make sync`" in said


def test_a_wheel_with_a_changed_library_is_not_built(checkout: Path, tmp_path: Path) -> None:
    copy = small_copy(checkout, tmp_path / "a copy")
    with (copy / PAGE_LIBRARIES.relative_to(checkout) / JOINED).open("a") as file:
        file.write("changed")
    refused = build(copy, "wheel", tmp_path / "wheel")
    assert refused.returncode != 0
    assert "is not as it was installed: base.js" in refused.stderr
    assert not list(tmp_path.glob("wheel/*"))


def small_copy(checkout: Path, copy: Path) -> Path:
    """What a build reads, with the page as the whole of the package."""
    copy.mkdir()
    for name in NEEDED:
        shutil.copy(checkout / name, copy / name)
    for folder in (checkout / "tools", PAGE_LIBRARIES.parent):
        shutil.copytree(folder, copy / folder.relative_to(checkout))
    return copy


def test_a_wheel_is_built_from_the_source_archive_without_npm(checkout: Path, tmp_path: Path) -> None:
    archive = built(checkout, "sdist", tmp_path / "sdist")
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)  # 3.11.0 to 3.11.3 know no filters
        opened.extractall(tmp_path)  # noqa: S202 - built by this test
    unpacked = tmp_path / archive.name.removesuffix(".tar.gz")
    made = built(unpacked, "wheel", tmp_path / "wheel", {"PATH": str(tmp_path)})
    with zipfile.ZipFile(made) as opened:
        assert f"{LIB}/{JOINED}" in opened.namelist()
    assert not (unpacked / ".tools").exists()
