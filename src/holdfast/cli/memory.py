"""`holdfast memory`: search memories, and list deliveries that are owed or set aside."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated

from cyclopts import App, Parameter, validators

from holdfast.cli.output import show, width
from holdfast.cli.session_lookup import SHORT, day
from holdfast.core.clean_text import one_line
from holdfast.core.errors import HoldfastError, InvalidInput
from holdfast.memory import browse
from holdfast.memory.contract import ONLY_HERE, Browsable
from holdfast.memory.provider_check import ProviderCheck, shut_down_provider
from holdfast.memory.provider_gate import GatedProvider
from holdfast.sessions.contract import SECOND, Delivery
from holdfast.wiring import existing_store, load_providers_of, load_settings

Most = Annotated[int, Parameter(validator=validators.Number(gte=1))]
SEARCH_SECONDS = 10.0

memory = App(name="memory", help="What is remembered, what is owed to memory, what was set aside.")


@memory.default
def status() -> None:
    """Print the state of each memory provider, and whether it works."""
    settings = load_settings()
    loaded = load_providers_of(settings)
    trials = [ProviderCheck(each.gated, each.config) for each in loaded.ready]
    with existing_store(settings) as db:
        for ready, trial in zip(loaded.ready, trials, strict=True):
            backlog = db.outbox.backlog(trial.name)
            show(f"{trial.name}: {backlog.owed} turns owed, {backlog.set_aside} set aside")
            if ready.gated.stores_on_host and db.is_shared:
                show(f"  {ONLY_HERE}")
            try:
                show(f"  {trial.result() or 'nothing to check'}")
            except HoldfastError as failure:
                show(f"  {failure}")
            if problem := shut_down_provider(ready.gated):
                show(f"  {problem}")
        for late in loaded.late:
            backlog = db.outbox.backlog(late.configured_name)
            show(f"{late.configured_name}: {backlog.owed} turns owed, {backlog.set_aside} set aside")
            show(f"  {late.problem}")
    for left_out in loaded.problems:
        show(f"left out: {left_out}")
    if not loaded.ready and not loaded.late:
        show("No memory provider is used; HOLDFAST_MEMORY_PROVIDERS names them.")


memory.command(status, name="status")
memory.command("holdfast.cli.memory_setup:setup", name="setup", help="Set up a memory provider.")
memory.command(
    "holdfast.cli.memory_forget:forget",
    name="forget",
    help="Delete memories for good: by number, words, time, conversation or person.",
)
memory.command(
    "holdfast.cli.memory_forget:forgotten",
    name="forgotten",
    help="List what was forgotten, without its content.",
)
memory.command(
    "holdfast.cli.memory_forget:retry_forgetting",
    name="retry-forgetting",
    help="Try a forgetting again where it failed.",
)


@memory.command
def search(*words: str, limit: int = 10, provider: str = "") -> None:
    """Search the memories of a provider.

    Parameters
    ----------
    words
        What to look for.
    limit
        How many memories at most.
    provider
        The provider; by default the first that can be searched.

    """
    with _browsable(provider) as gated:
        call = partial(browse.search, gated.provider, " ".join(words), limit)
        found = gated.answer("a search", call, SEARCH_SECONDS)
        for each in found:
            text = one_line(each.text, width())
            when = day(int((each.created or 0) * SECOND))
            uses = f" (used {_times(each.used)})" if each.used else ""
            where = f" in …{each.session_id[-SHORT:]}" if each.session_id else ""
            line = f"{each.id:>6}  {when}  {each.speaker or each.kind}{where}{uses}: {text}"
            show(one_line(line, width(), squeeze=False))
        if not found:
            show("Nothing was found.")


@memory.command
def owed(*, limit: Most = 100) -> None:
    """List the turns that are not delivered to a provider yet.

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


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


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
def _browsable(wanted: str) -> Iterator[GatedProvider]:
    """The first provider in use that can be searched, or the one of that name; closed at the end."""
    loaded = load_providers_of(load_settings())
    try:
        for ready in loaded.ready:
            if isinstance(ready.gated.provider, Browsable) and wanted in ("", ready.gated.name):
                start = partial(ready.gated.provider.initialize, "", config=ready.config)
                ready.gated.answer("initialize", start, SEARCH_SECONDS)
                yield ready.gated
                return
        which = f"{wanted!r} can't be searched here" if wanted else "no memory that can be searched is in use"
        why = "; ".join(("", *loaded.left_out))
        raise InvalidInput(f"{which}; HOLDFAST_MEMORY_PROVIDERS names the providers{why}")
    finally:
        for ready in loaded.ready:
            shut_down_provider(ready.gated)
