"""Lists Holdfast's own files, wherever settings and environment put them. Read `core/own_files.py` first.

Tools always ask about these files. A file belongs here if it can change what the next start does, or if it
holds a secret.
"""

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import holdfast
from holdfast.core.own_files import OwnFiles
from holdfast.core.settings import Settings
from holdfast.providers.loader import HERMES
from holdfast.wiring.folders import data_folder, own_folders
from holdfast.wiring.memory_setup import config_store, plugins_folder
from holdfast.wiring.settings_loader import settings_path
from holdfast.wiring.store_opener import usual_store

BESIDE_STORE = ("", "-wal", "-shm", "-journal")


def own_files(settings: Settings) -> OwnFiles:
    """The files of this installation with these settings. Blocks on the disk."""
    return OwnFiles.of(
        folders=own_folders(),
        program=[*_program(), *_named_code(settings)],
        files=[*_obeyed(settings), *_files(settings)],
    )


def skills_folder(settings: Settings) -> Path:
    """The folder for skills."""
    return Path(settings.tools.skills_folder) if settings.tools.skills_folder else data_folder() / "skills"


def _obeyed(settings: Settings) -> Iterator[Path]:
    for folder in (plugins_folder(settings), skills_folder(settings)):
        yield folder
        # The targets of links in these folders are obeyed too.
        yield from _links(folder)


def _files(settings: Settings) -> Iterator[Path]:
    configured = config_store()
    yield from (settings_path(), configured.settings, configured.secrets, data_folder() / "web-token")
    scheme, _, rest = settings.store.url.partition("://")
    store = Path(rest[1:]) if scheme == "sqlite" else usual_store()
    yield from (store.with_name(store.name + end) for end in BESIDE_STORE if store.name)
    if scheme.startswith("postgres"):
        home = Path.home()
        yield Path(os.environ.get("PGPASSFILE") or home / ".pgpass")
        yield Path(os.environ.get("PGSERVICEFILE") or home / ".pg_service.conf")
    if os.environ.get("HERMES_HOME"):
        yield Path(os.environ["HERMES_HOME"]).expanduser()
    for name in settings.memory.providers:
        if name.startswith(HERMES):
            yield Path(name.removeprefix(HERMES)).expanduser()


def _links(folder: Path) -> Iterator[Path]:
    try:
        yield from [each for each in folder.iterdir() if each.is_symlink()]
    except OSError:
        return


def _program() -> Iterator[Path]:
    yield Path(holdfast.__file__).parent
    names = ["purelib", "platlib", *(["scripts"] if sys.prefix != sys.base_prefix else [])]
    yield from (Path(sysconfig.get_path(name)) for name in names)


def _named_code(settings: Settings) -> Iterator[Path]:
    """The code that the settings name: modules of providers, scripts of tool servers."""
    for name in settings.memory.providers:
        module, colon, _ = name.partition(":")
        if colon and not name.startswith(HERMES):
            yield from _module_files(module.partition(".")[0])
    for server in settings.tools.mcp_servers:
        yield from (Path(word) for word in (server.command, *server.args) if word and Path(word).is_file())


def _module_files(module: str) -> Iterator[Path]:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return
    if spec is not None and spec.submodule_search_locations:
        yield from map(Path, spec.submodule_search_locations)
    elif spec is not None and spec.has_location and spec.origin:
        yield Path(spec.origin)
