"""`holdfast worker`: a node without a page that runs what waits in a PostgreSQL store."""

import sys
from typing import Annotated

from cyclopts import Parameter

from holdfast.core.errors import InvalidInput
from holdfast.core.settings import Settings
from holdfast.process import run

SOURCE = "worker"


def worker(*, workspace: Annotated[str, Parameter(name="--workspace")] = "") -> None:
    """Run what waits in the store and what dead nodes left there, until Ctrl-C.

    Parameters
    ----------
    workspace
        The folder that the agent works in; by default the current folder.

    """
    from holdfast.wiring import load_settings
    from holdfast.wiring.workspace import with_workspace, workspace_of

    settings = with_workspace(load_settings(), workspace)
    if not settings.store.is_shared:
        raise InvalidInput(
            "a worker needs a store on PostgreSQL, and this one is on SQLite; nothing was started. One "
            "process runs a SQLite store: `holdfast web` or `holdfast gateway` runs what waits there, and "
            "schedules. Set HOLDFAST_STORE_URL to a postgresql:// address, or use one of them."
        )
    workspace_of(settings).require_trusted()
    run(_work(settings))


async def _work(settings: Settings) -> None:
    from holdfast.wiring.graceful_stop import open_host
    from holdfast.wiring.service_manager import READY, tell_service_manager

    async with open_host(settings, source=SOURCE, say=_say, after_crash="resume") as (host, leaving):
        host.serve_schedules()
        for problem in host.overview.problems:
            _say(f"! {problem}")
        # A store that can't be written makes no node ready: it ends, and its service manager tries again.
        await host.records.require_store()
        _say(f"runs what waits in {(await host.overview.status()).store}; Ctrl-C ends it")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        tell_service_manager(READY)
        await leaving.requested.wait()
        _say("shutting down")
    leaving.raise_signal()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()
