"""`holdfast memory`: what is remembered, what is still owed to memory, and what was set aside."""

from cyclopts import App

from holdfast.cli.clean_text import one_line
from holdfast.cli.finding import day
from holdfast.cli.printing import show, width
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.memory.checking import Trial
from holdfast.memory.providers.local import LocalMemory
from holdfast.sessions.contract import Delivery
from holdfast.wiring import existing_store, load_providers_of, load_settings

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
def search(*words: str, limit: int = 10) -> None:
    """Search what the local memory holds.

    Parameters
    ----------
    words
        What to look for.
    limit
        How many memories at most.

    """
    local = _local()
    try:
        found = local.search(" ".join(words), limit)
        for each in found:
            said = each.speaker if each.kind == "turn" else "note"
            text = one_line(each.text, width())
            show(one_line(f"{each.id:>6}  {local.dated(each)}  {said}: {text}", width(), squeeze=False))
        if not found:
            show("Nothing was found.")
    finally:
        local.shutdown()


@memory.command
def forget(memory_id: int, /) -> None:
    """Remove a note, or the turn that a memory belongs to, from the local memory for good.

    Parameters
    ----------
    memory_id
        The number that `holdfast memory search` shows.

    """
    local = _local()
    try:
        if not local.forget(memory_id):
            raise InvalidInput(f"the local memory has nothing with the number {memory_id}")
        show(f"forgot {memory_id}; the conversation itself stays on record")
    finally:
        local.shutdown()


@memory.command
def owed(*, limit: int = 100) -> None:
    """List the turns that are still to be sent to a provider.

    Parameters
    ----------
    limit
        How many at most.

    """
    with existing_store(load_settings()) as db:
        waiting = [*db.outbox.list("owed", limit=limit), *db.outbox.list("claimed", limit=limit)]
    for delivery in waiting[:limit]:
        show(_line(delivery))
    show(f"{len(waiting)} owed" if waiting else "Nothing is owed.")


@memory.command(name="set-aside")
def set_aside(*, limit: int = 100) -> None:
    """List the turns that could not be sent and wait for a decision: retry or drop.

    Parameters
    ----------
    limit
        How many at most.

    """
    with existing_store(load_settings()) as db:
        aside = db.outbox.list("set_aside", limit=limit)
    for delivery in aside:
        show(_line(delivery))
    show(f"{len(aside)} set aside" if aside else "Nothing is set aside.")


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


def _line(delivery: Delivery) -> str:
    error = f"  {delivery.last_error}" if delivery.last_error else ""
    head = f"{delivery.id:>6}  {day(delivery.created)}  {delivery.provider}  …{delivery.session_id[-8:]}"
    return one_line(f"{head}  tries: {delivery.attempts}{error}", width(), squeeze=False)


def _local() -> LocalMemory:
    for provider in load_providers_of(load_settings()).providers:
        if isinstance(provider, LocalMemory):
            return provider
        provider.shutdown()
    raise InvalidInput("the local memory is not in use; HOLDFAST_MEMORY_PROVIDERS names the providers")
