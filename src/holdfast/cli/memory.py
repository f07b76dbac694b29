"""`holdfast memory`: what is remembered, what is still owed to memory, and what was set aside."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import App, Parameter, validators

from holdfast.cli.clean_text import one_line
from holdfast.cli.finding import day
from holdfast.cli.printing import show, width
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.memory.checking import Trial
from holdfast.memory.contract import Browsable
from holdfast.sessions.contract import SECOND, Delivery
from holdfast.wiring import existing_store, load_providers_of, load_settings

Most = Annotated[int, Parameter(validator=validators.Number(gte=1))]

memory = App(name="memory", help="What is remembered, what is owed to memory, what was set aside.")


@memory.default
def status() -> None:
    """Say how each memory provider stands, and whether it works."""
    settings = load_settings()
    loaded = load_providers_of(settings)
    trials = [Trial(each, loaded.configs[each.name]) for each in loaded.providers]
    with existing_store(settings) as db:
        for provider, trial in zip(loaded.providers, trials, strict=True):
            backlog = db.outbox.backlog(provider.name)
            show(f"{provider.name}: {backlog.owed} turns owed, {backlog.set_aside} set aside")
            try:
                show(f"  {trial.result() or 'nothing to check'}")
            except HoldfastError as failure:
                show(f"  {failure}")
            provider.shutdown()
    for problem in loaded.problems:
        show(f"left out: {problem}")
    if not loaded.providers:
        show("No memory provider is used; HOLDFAST_MEMORY_PROVIDERS names them.")


memory.command(status, name="status")
memory.command("holdfast.cli.memory_setup:setup", name="setup", help="Set up a memory provider.")


@memory.command
def search(*words: str, limit: int = 10, provider: str = "") -> None:
    """Search what the memory on this machine holds.

    Parameters
    ----------
    words
        What to look for.
    limit
        How many memories at most.
    provider
        Whose; without it the first that can be searched.

    """
    with _browsable(provider) as (_, browsable):
        found = browsable.remembered(" ".join(words), limit)
        for each in found:
            text = one_line(each.text, width())
            line = f"{each.id:>6}  {day(int(each.when * SECOND))}  {each.speaker or each.kind}: {text}"
            show(one_line(line, width(), squeeze=False))
        if not found:
            show("Nothing was found.")


@memory.command
def forget(memory_id: int, /, *, provider: str = "") -> None:
    """Remove a note, a fact, or the turn that a memory belongs to, for good.

    Parameters
    ----------
    memory_id
        The number that `holdfast memory search` shows.
    provider
        Whose; without it the first that can be searched.

    """
    with _browsable(provider) as (name, browsable):
        if not browsable.forget(memory_id):
            raise InvalidInput(f"the {name} memory has nothing with the number {memory_id}")
        show(f"forgot {memory_id}; the conversation itself stays on record")


@memory.command
def owed(*, limit: Most = 100) -> None:
    """List the turns that are still to be sent to a provider.

    Parameters
    ----------
    limit
        How many at most.

    """
    with existing_store(load_settings()) as db:
        waiting = [*db.outbox.list("owed", limit=limit + 1), *db.outbox.list("claimed", limit=limit + 1)]
    _show_deliveries(waiting, limit, "owed")


@memory.command(name="set-aside")
def set_aside(*, limit: Most = 100) -> None:
    """List the turns that could not be sent and wait for a decision: retry or drop.

    Parameters
    ----------
    limit
        How many at most.

    """
    with existing_store(load_settings()) as db:
        aside = db.outbox.list("set_aside", limit=limit + 1)
    _show_deliveries(aside, limit, "set aside")


@memory.command
def retry(delivery: int, /) -> None:
    """Owe a turn again that was set aside; it is sent at once, or at the next start.

    Parameters
    ----------
    delivery
        The number that `holdfast memory set-aside` shows.

    """
    with existing_store(load_settings()) as db:
        db.outbox.retry(delivery)
    show(f"{delivery} is owed again")


@memory.command
def drop(delivery: int, /) -> None:
    """Give up sending a turn that was set aside; it stays on record as dropped.

    Parameters
    ----------
    delivery
        The number that `holdfast memory set-aside` shows.

    """
    with existing_store(load_settings()) as db:
        db.outbox.drop(delivery)
    show(f"{delivery} is dropped")


def _show_deliveries(found: list[Delivery], most: int, state: str) -> None:
    for delivery in found[:most]:
        show(_line(delivery))
    if len(found) > most:
        show(f"more than {most} are {state}; --limit shows more of them")
    else:
        show(f"{len(found)} {state}" if found else f"Nothing is {state}.")


def _line(delivery: Delivery) -> str:
    error = f"  {delivery.last_error}" if delivery.last_error else ""
    head = f"{delivery.id:>6}  {day(delivery.created)}  {delivery.provider}  …{delivery.session_id[-8:]}"
    return one_line(f"{head}  tries: {delivery.attempts}{error}", width(), squeeze=False)


@contextmanager
def _browsable(wanted: str) -> Iterator[tuple[str, Browsable]]:
    """The first provider in use that can be searched, or the one of that name; closed at the end."""
    providers = load_providers_of(load_settings()).providers
    try:
        for provider in providers:
            if isinstance(provider, Browsable) and wanted in ("", provider.name):
                yield provider.name, provider
                return
        which = f"{wanted!r} can't be searched here" if wanted else "no memory that can be searched is in use"
        raise InvalidInput(f"{which}; HOLDFAST_MEMORY_PROVIDERS names the providers")
    finally:
        for provider in providers:
            provider.shutdown()
