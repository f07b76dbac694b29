"""`holdfast doctor`: looks at everything Holdfast stands on and says what to do about what is wrong."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from holdfast.core.errors import HoldfastError
from holdfast.core.settings import Settings

State = Literal["ok", "note", "wrong"]
MARKS = {"ok": "✓", "note": "·", "wrong": "✗"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    about: str
    state: State
    text: str


class SomethingWrong(HoldfastError):
    """The doctor found what keeps Holdfast from working."""


def doctor(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Check the settings, store, model, memory and terminal; says what to do.

    Parameters
    ----------
    as_json
        Print JSON.

    """
    from holdfast.cli.printing import show, show_json

    findings = list(look())
    if as_json:
        show_json([asdict(each) for each in findings])
    else:
        for each in findings:
            show(f"{MARKS[each.state]} {each.about}: {each.text}")
    wrong = [each.about for each in findings if each.state == "wrong"]
    if wrong:
        raise SomethingWrong(f"something is wrong with: {', '.join(wrong)}")


def look() -> Iterator[Finding]:
    """Every finding, in the order in which one thing stands on another."""
    from holdfast.wiring import load_settings, settings_path

    place = settings_path()
    try:
        settings = load_settings()
    except HoldfastError as problem:
        yield Finding("settings", "wrong", str(problem))
        return
    yield Finding("settings", "ok", str(place) if place.exists() else f"none in {place}; the defaults count")
    yield _log()
    for about, check in (("store", _store), ("model", _model), ("embedded model", _embedded)):
        yield from _guarded(about, check, settings)
    yield from _guarded("memory", _memory, settings)
    yield _terminal()


def _guarded(
    about: str, check: Callable[[Settings], Iterator[Finding]], settings: Settings
) -> Iterator[Finding]:
    try:
        yield from check(settings)
    except HoldfastError as problem:
        yield Finding(about, "wrong", str(problem))


def _log() -> Finding:
    from holdfast.cli.logs import log_file
    from holdfast.wiring import log_folder

    return Finding("log", "ok", str(log_file(log_folder())))


def _store(settings: Settings) -> Iterator[Finding]:
    from holdfast.wiring import data_folder, open_store

    if not settings.store.url and not (data_folder() / "holdfast.db").exists():
        yield Finding("store", "note", f"none yet; the first conversation makes it in {data_folder()}")
        return
    with open_store(settings, create=False) as db:
        problems = db.check()
        if problems:
            yield Finding("store", "wrong", f"{db.location}: {'; '.join(problems)}. {db.recovery}")
            return
        yield Finding("store", "ok", f"{db.location} is sound, its schema is current")
        unfinished, waiting = db.turns.unfinished(), db.inbox.sessions()
        if unfinished or waiting:
            text = (
                f"{len(unfinished)} turns cut off or running, words waiting in {len(waiting)} conversations"
            )
            yield Finding("conversations", "note", f"{text}; `holdfast chat` asks about them")
        for provider in settings.memory.providers:
            backlog = db.outbox.backlog(provider)
            if backlog.owed or backlog.set_aside:
                text = f"{backlog.owed} turns owed, {backlog.set_aside} set aside"
                yield Finding(f"memory {provider}", "note", f"{text}; see `holdfast memory`")


def _model(settings: Settings) -> Iterator[Finding]:
    from holdfast.wiring import open_model

    async def opened() -> Finding:
        found = await open_model(settings)
        traits = found.model.traits
        await found.model.close()
        text = f"{traits.name}: {found.choice.reason}; {traits.context_window:,} tokens"
        if traits.notice:
            return Finding("model", "note", f"{text}. {traits.notice}")
        return Finding("model", "ok", f"{text}; `holdfast model test` asks it")

    yield asyncio.run(opened())


def _embedded(_: Settings) -> Iterator[Finding]:
    from holdfast.models.embedded import embedded_state
    from holdfast.wiring import data_folder

    state = embedded_state(data_folder())
    yield Finding("embedded model", "ok" if state.ready else "note", state.missing or f"{state.weights}")


def _memory(settings: Settings) -> Iterator[Finding]:
    from holdfast.memory.contract import Browsable
    from holdfast.memory.providers.local import LocalMemory
    from holdfast.wiring import load_providers_of

    loaded = load_providers_of(settings)
    for problem in loaded.problems:
        yield Finding("memory", "wrong", str(problem))
    for provider in loaded.providers:
        if isinstance(provider, LocalMemory):
            described = provider.describe()
            yield Finding(f"memory {provider.name}", "ok" if described.embeddings else "note", str(described))
        elif isinstance(provider, Browsable):
            yield Finding(f"memory {provider.name}", "ok", str(provider.describe()))
        else:
            ready = provider.is_available()
            yield Finding(
                f"memory {provider.name}",
                "ok" if ready else "wrong",
                "can work here" if ready else "can't work here",
            )
        provider.shutdown()
    if not loaded.providers and not loaded.problems:
        yield Finding("memory", "note", "no provider is used; HOLDFAST_MEMORY_PROVIDERS names them")


def _terminal() -> Finding:
    import shutil

    encoding = (sys.stdout.encoding or "").lower()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Finding("terminal", "note", "none here; chat reads lines from standard input")
    size = shutil.get_terminal_size()
    if "utf" not in encoding:
        return Finding("terminal", "note", f"its encoding is {encoding}; set LANG to a UTF-8 locale")
    return Finding("terminal", "ok", f"{size.columns} by {size.lines}, {encoding}")
