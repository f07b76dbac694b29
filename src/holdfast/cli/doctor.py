"""`holdfast doctor`: checks everything Holdfast depends on and says how to repair it."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Annotated, Literal

from cyclopts import Parameter

from holdfast.core.distribution import other_package_note
from holdfast.core.errors import HoldfastError, ProviderUnavailable
from holdfast.core.settings import Settings
from holdfast.memory.provider_gate import GatedProvider
from holdfast.process import run

State = Literal["ok", "note", "wrong"]
MARKS = {"ok": "✓", "note": "·", "wrong": "✗"}
SHOWN_FILES = 5


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    about: str
    state: State
    text: str


class ProblemsFound(HoldfastError):
    """A check failed."""


def doctor(*, as_json: Annotated[bool, Parameter(name="--json", negative="")] = False) -> None:
    """Check the settings, store, model, memory and terminal; says what to do.

    Parameters
    ----------
    as_json
        Print JSON.

    """
    from holdfast.cli.output import show, show_json

    findings = list(look())
    if as_json:
        show_json([asdict(each) for each in findings])
    else:
        for each in findings:
            show(f"{MARKS[each.state]} {each.about}: {each.text}")
    wrong = [each.about for each in findings if each.state == "wrong"]
    if wrong:
        raise ProblemsFound(f"something is wrong with: {', '.join(wrong)}")


def look() -> Iterator[Finding]:
    """Every finding; a check comes after the ones it depends on."""
    from holdfast.wiring import load_settings, settings_path

    if note := other_package_note():
        yield Finding("package", "note", note)
    place = settings_path()
    try:
        settings = load_settings()
    except HoldfastError as problem:
        yield Finding("settings", "wrong", str(problem))
        return
    yield Finding("settings", "ok", str(place) if place.exists() else f"none in {place}; the defaults count")
    yield _log()
    yield from _guarded("files", _rights, settings)
    yield from _guarded("workspace", _workspace, settings)
    yield _sandbox(settings)
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


def _rights(settings: Settings) -> Iterator[Finding]:
    from holdfast.wiring import config_store, settings_path
    from holdfast.wiring.file_rights import MAX_FILES, code_files, odd_rights
    from holdfast.wiring.memory_setup import plugins_folder

    files = (settings_path(), config_store().settings, config_store().secrets)
    plugins = islice(code_files(plugins_folder(settings)), MAX_FILES)
    odd = [problem for file in (*files, *plugins) if (problem := odd_rights(file))]
    for problem in odd[:SHOWN_FILES]:
        yield Finding("files", "note", problem)
    if len(odd) > SHOWN_FILES:
        yield Finding("files", "note", f"{len(odd) - SHOWN_FILES} more files are like that")


def _workspace(settings: Settings) -> Iterator[Finding]:
    from holdfast.wiring.workspace import workspace_of

    found = workspace_of(settings)
    yield Finding(
        "workspace", "note" if found.warning else "ok", " ".join(found.notes()) or str(found.folder)
    )


def _sandbox(settings: Settings) -> Finding:
    from holdfast.tools.sandbox import SandboxOptions
    from holdfast.tools.sandbox_choice import probe_sandbox
    from holdfast.wiring.workspace import workspace_of

    state = probe_sandbox(settings.tools, SandboxOptions(workspace=workspace_of(settings).label))
    fine: State = "note" if state.kind == "off" else "ok"
    return Finding("sandbox", "wrong" if state.refusing else fine, state.text)


def _store(settings: Settings) -> Iterator[Finding]:
    from holdfast.wiring import data_folder, has_store, open_store

    if not has_store(settings):
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
            cut_off = f"{len(unfinished)} turns cut off or running"
            text = f"{cut_off}, messages waiting in {len(waiting)} conversations"
            yield Finding("conversations", "note", f"{text}; `holdfast chat` asks about them")
        for provider in settings.memory.providers:
            backlog = db.outbox.backlog(provider)
            if backlog.owed or backlog.set_aside:
                text = f"{backlog.owed} turns owed, {backlog.set_aside} set aside"
                yield Finding(f"memory {provider}", "note", f"{text}; see `holdfast memory`")


def _model(settings: Settings) -> Iterator[Finding]:
    from holdfast.agent.tool_profile import ToolProfiles
    from holdfast.wiring import open_model

    async def opened() -> Finding:
        found = await open_model(settings)
        traits = found.model.traits
        await found.model.close()
        text = f"{traits.name}: {found.choice.reason}; {traits.context_window:,} tokens"
        if traits.calls_tools:
            text += (
                f"; tool profile {ToolProfiles(settings.tools.profile, settings.tools.profiles).of(traits)}"
            )
        if traits.notice:
            return Finding("model", "note", f"{text}. {traits.notice}")
        return Finding("model", "ok", f"{text}; `holdfast model test` asks it")

    yield run(opened())


def _embedded(_: Settings) -> Iterator[Finding]:
    from holdfast.models.embedded import embedded_state
    from holdfast.wiring import data_folder

    state = embedded_state(data_folder())
    yield Finding("embedded model", "ok" if state.ready else "note", state.missing or f"{state.weights}")


def _memory(settings: Settings) -> Iterator[Finding]:
    from holdfast.memory.contract import ONLY_HERE, KeepsScopes
    from holdfast.memory.provider_check import shut_down_provider
    from holdfast.wiring import load_providers_of

    loaded = load_providers_of(settings)
    for problem in loaded.left_out:
        yield Finding("memory", "wrong", problem)
    for ready in loaded.ready:
        yield _provider(ready.gated)
        if not isinstance(ready.gated.provider, KeepsScopes):
            alone = "it can't keep people apart, so it is used in the owner's conversations alone"
            yield Finding(f"memory {ready.gated.name}", "note", alone)
        if ready.gated.stores_on_host and settings.store.is_shared:
            yield Finding(f"memory {ready.gated.name}", "note", ONLY_HERE)
        if problem := shut_down_provider(ready.gated):
            yield Finding(f"memory {ready.gated.name}", "wrong", problem)
    if not loaded.ready and not loaded.left_out:
        yield Finding("memory", "note", "no provider is used; HOLDFAST_MEMORY_PROVIDERS names them")


def _provider(gated: GatedProvider) -> Finding:
    from holdfast.memory.contract import Browsable

    named, provider = f"memory {gated.name}", gated.provider
    try:
        if isinstance(provider, Browsable):
            described = gated.answer("describe", provider.describe)
            return Finding(named, "note" if getattr(described, "is_limited", False) else "ok", str(described))
        ready = gated.answer("is_available", provider.is_available)
    except ProviderUnavailable as late:
        return Finding(named, "wrong", str(late))
    return Finding(named, "ok" if ready else "wrong", "can work here" if ready else "can't work here")


def _terminal() -> Finding:
    import shutil

    encoding = (sys.stdout.encoding or "").lower()
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return Finding("terminal", "note", "none here; chat reads lines from standard input")
    size = shutil.get_terminal_size()
    if "utf" not in encoding:
        return Finding("terminal", "note", f"its encoding is {encoding}; set LANG to a UTF-8 locale")
    return Finding("terminal", "ok", f"{size.columns} by {size.lines}, {encoding}")
