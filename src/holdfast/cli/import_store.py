"""`holdfast import`: the conversations of other agents."""

from collections.abc import Callable
from pathlib import Path

from cyclopts import App

from holdfast.cli.output import show
from holdfast.core.errors import HoldfastError
from holdfast.sessions.foreign import (
    ForeignStore,
    ImportReport,
    import_conversations,
    read_hermes,
    read_langgraph,
    read_openai_agents,
)
from holdfast.wiring import load_settings, open_store

import_store = App(name="import", help="Import the conversations of another agent; its files are only read.")


class ImportIncomplete(HoldfastError):
    """Some conversations were not imported."""


@import_store.command
def hermes(path: Path, /) -> None:
    """Import the sessions of hermes-agent.

    Parameters
    ----------
    path
        Its file state.db, or the folder that has it, such as ~/.hermes.

    """
    _import(read_hermes, path)


@import_store.command(name="openai-agents")
def openai_agents(path: Path, /) -> None:
    """Import the sessions of the OpenAI Agents SDK.

    Parameters
    ----------
    path
        The file that its SQLiteSession was given.

    """
    _import(read_openai_agents, path)


@import_store.command
def langgraph(path: Path, /) -> None:
    """Import the threads of LangGraph.

    Parameters
    ----------
    path
        The file that its SqliteSaver was given.

    """
    _import(read_langgraph, path)


def _import(read: Callable[[Path], ForeignStore], path: Path) -> None:
    store = read(path.expanduser())
    with open_store(load_settings()) as db:
        report = import_conversations(db, store)
    show_report(report, len(store.conversations))
    if report.refused or report.wrong:
        raise ImportIncomplete("not everything was imported; the lines above say what is missing and why")


def show_report(report: ImportReport, conversations: int) -> None:
    """Say what was read, stored, found again and left out."""
    show(f"read: {conversations} conversations with messages, {report.rows} stored items")
    show(f"imported: {report.imported} conversations, {report.messages} messages, read back and compared")
    if report.empty:
        show(f"left out: {report.empty} conversations without messages")
    if report.present:
        show(f"already here: {report.present} conversations of an earlier import")
    for reason, count in report.left_out.items():
        show(f"left out: {count} items, because {reason}")
    for refused in report.refused:
        show(f"✗ not imported: {refused}")
    for session in report.wrong:
        show(f"✗ stored otherwise than it was read: {session}")
