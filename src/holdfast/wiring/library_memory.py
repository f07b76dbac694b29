"""Memory for a program: a list of names and of the program's own objects."""

from collections.abc import Sequence
from pathlib import Path

from holdfast.core.errors import InvalidInput, ProviderInvalid
from holdfast.core.settings import Settings
from holdfast.memory import MemoryManager, MemoryProvider
from holdfast.memory.contract import TextCompletion
from holdfast.sessions import SessionDB
from holdfast.wiring.folders import data_folder

Memory = Sequence[str | MemoryProvider]
"""Names such as `local`, as in the setting `memory.providers`, and objects of one's own."""


def checked_memory(given: Memory) -> Memory:
    """The list, when all its entries can be memory; raises `ProviderInvalid` or `InvalidInput`."""
    if isinstance(given, (str, MemoryProvider, MemoryManager)) or not isinstance(given, Sequence):
        raise InvalidInput(f'memory is a list of names and providers: memory=["local", …], not {given!r:.80}')
    for each in given:
        if not isinstance(each, str):
            _check_object(each)
    return given


def _check_object(provider: object) -> None:
    from holdfast.providers.loader import check_shape

    if isinstance(provider, type):
        raise ProviderInvalid(provider.__name__, f"it is a class; pass an object, {provider.__name__}(…)")
    name = getattr(provider, "name", None)
    check_shape(name if isinstance(name, str) and name else type(provider).__name__, provider)


def library_memory(
    settings: Settings, given: Memory, store: SessionDB, complete: TextCompletion | None
) -> MemoryManager:
    """Memory with the named providers and the program's own. Blocks; raises why one can't be used."""
    from holdfast.wiring.memory_setup import attach_object, build_memory

    wanted = memory_settings(settings, given)
    memory, left_out = build_memory(wanted, store, complete, memory_folder(store))
    if left_out:
        memory.shutdown_all()
        raise left_out[0]
    try:
        for each in objects(given):
            attach_object(memory, each, complete)
    except BaseException:
        memory.shutdown_all()
        raise
    return memory


def memory_folder(store: SessionDB) -> Path:
    """Where named providers keep their files: beside a SQLite file, or in a folder for programs.

    Never where the person's own assistant keeps its memory.
    """
    file = Path(store.location)
    folder = file.with_name(f"{file.name}-memory") if file.is_file() else data_folder() / "library"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def memory_settings(settings: Settings, given: Memory) -> Settings:
    """The settings with the named providers and no others."""
    names = tuple(each for each in given if isinstance(each, str))
    memory = settings.memory.model_validate({**settings.memory.model_dump(), "providers": names})
    return settings.model_copy(update={"memory": memory})


def objects(given: Memory) -> list[MemoryProvider]:
    """The program's own providers."""
    return [each for each in given if not isinstance(each, str)]
