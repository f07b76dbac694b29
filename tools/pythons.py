"""Run the tests on every supported Python that this machine has: `make test-pythons`.

Interpreters are looked for on PATH and in `~/.pyenv/versions`. Each gets an environment of its own in
`.cache/pythons`, with the same locked dependencies. Which of them are missing is said at the end. With
`--others` the one of the checkout's own environment is left out: `make test` has it.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.bootstrap import ROOT, SUPPORTED, CannotBootstrap, probe, sync

Version = tuple[int, int]
ENVIRONMENTS = ROOT / ".cache" / "pythons"
PYENV = Path.home() / ".pyenv" / "versions"
OTHERS = "--others"
NOTHING_RAN = 5
"""Pytest's exit code when it selected no test, as with `--last-failed` on a Python on which none failed."""
TESTS = ["-m", "pytest", "-m", "not backends and not soak", "-n", "6", "--dist", "worksteal"]

TestRun = Callable[[str, Path, Sequence[str]], bool]
"""Runs the tests with an interpreter, in an environment, with more arguments; says whether they passed."""


def find_pythons(search: str | None = None, pyenv: Path = PYENV) -> dict[Version, str]:
    """The supported interpreters that start: those on the search path (PATH by default), then pyenv's."""
    found: dict[Version, str] = {}
    for version in SUPPORTED:
        for candidate in _candidates(version, search, pyenv):
            answer = probe(candidate)
            if answer is not None and answer[0] == version:
                found[version] = answer[1]
                break
    return found


def _candidates(version: Version, search: str | None, pyenv: Path) -> Iterator[str]:
    name = f"python{version[0]}.{version[1]}"
    for folder in (os.environ["PATH"] if search is None else search).split(os.pathsep):  # noqa: TID251
        # A later folder may have one that starts where an earlier one has none.
        if command := shutil.which(name, path=folder):
            yield command
    releases = pyenv.glob(f"{version[0]}.{version[1]}.*")
    for release in sorted(releases, key=_patch, reverse=True):
        yield str(release / "bin" / name)


def _patch(release: Path) -> int:
    patch = release.name.rpartition(".")[2]
    return int(patch) if patch.isdigit() else -1


def run_tests(python: str, environment: Path, arguments: Sequence[str]) -> bool:
    sync(python, environment)
    command = [str(environment / "bin" / "python"), *TESTS, "-o", f"cache_dir={environment / 'pytest'}"]
    passed = [0, NOTHING_RAN] if "--last-failed" in arguments else [0]
    return subprocess.call([*command, *arguments], cwd=ROOT) in passed


def run_all(pythons: dict[Version, str], arguments: Sequence[str], run: TestRun = run_tests) -> int:
    """Run the tests on each, whatever the others do, and print a line for every supported version."""
    outcomes: list[str] = []
    failed = False
    left_out = sys.version_info[:2] if OTHERS in arguments else None
    arguments = [each for each in arguments if each != OTHERS]
    for version in SUPPORTED:
        name = ".".join(map(str, version))
        if version == left_out:
            outcomes.append(f"Python {name}: left out, it is that of the checkout's own environment")
            continue
        if version not in pythons:
            outcomes.append(f"Python {name}: missing on this machine, not tested")
            continue
        print(f"--- Python {name}: {pythons[version]}", flush=True)
        passed = run(pythons[version], ENVIRONMENTS / name, arguments)
        failed = failed or not passed
        outcomes.append(f"Python {name}: {'passed' if passed else 'failed'} ({pythons[version]})")
    print(*outcomes, sep="\n")
    return 1 if failed or not pythons else 0


if __name__ == "__main__":
    try:
        sys.exit(run_all(find_pythons(), sys.argv[1:]))
    except CannotBootstrap as cause:
        sys.exit(str(cause))
