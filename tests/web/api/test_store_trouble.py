"""A store that can't be written in mid-turn: the conversation's status tells what its stream tells."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.agent import AgentOptions
from holdfast.core.events import TurnCompleted
from holdfast.host import SessionHost
from holdfast.sessions import SessionDB, Transaction
from tests.agent.agent_fixtures import Hold
from tests.host.host_fixtures import a_host, until_turns_end
from tests.polling import until_seen
from tests.web.api.api_server import Served, served

Wait = Callable[[Awaitable[Any]], Any]

PAGES = 2**30
# One word is one event: whoever reads from the beginning after the turn's end still finds all of them.
ANSWER = "w" * 100_000


def full(db: SessionDB, pages: int | None) -> None:
    """Let the database grow no more, as on a full disk; None: it may again."""

    def limit(tx: Transaction) -> None:
        now = tx.connection.execute("pragma page_count").fetchone()[0]
        tx.connection.execute(f"pragma max_page_count = {PAGES if pages is None else now + pages}")

    db._engine.write(limit)  # noqa: SLF001 - a limit of the writer's connection


async def detail(server: Served, session: str) -> dict[str, Any]:
    answer: dict[str, Any] = (await server.http.get(f"/api/sessions/{session}")).json()
    return answer


async def trouble(host: SessionHost) -> bool:
    return "is full" in (await host.overview.session_status("s")).trouble


async def no_trouble(host: SessionHost) -> bool:
    return not (await host.overview.session_status("s")).trouble


async def standing_in_trouble(server: Served, session: str) -> dict[str, Any]:
    """The conversation, once its status tells of trouble; the list and the whole tell the same."""
    found: dict[str, Any] = {}

    async def look() -> object:
        found.update(await detail(server, session))
        return found["trouble"]

    await until_seen(look)
    assert "is full" in found["trouble"]
    (listed,) = (await server.http.get("/api/sessions")).json()["items"]
    assert "is full" in listed["trouble"]
    (trouble,) = (await server.http.get("/api/status")).json()["troubles"]
    assert trouble["session_id"] == session
    assert "is full" in trouble["trouble"]
    return found


async def standing_well(server: Served, session: str) -> None:
    async def look() -> object:
        return not (await detail(server, session))["trouble"]

    await until_seen(look)
    assert (await server.http.get("/api/status")).json()["troubles"] == []


@pytest.mark.clause("D12")
def test_a_status_shows_the_trouble_of_a_turn_that_waits_for_space(tmp_path: Path, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold(answer=ANSWER)
        with SessionDB(tmp_path / "holdfast.db") as db:
            async with served(db, [hold]) as server:
                session = await server.begin()
                await server.send(session, "go")
                await hold.reached.wait()
                full(db, 5)
                hold.opened.set()
                assert (await standing_in_trouble(server, session))["state"] == "running"
                full(db, None)
                await server.until(session, "TurnCompleted", after=0)
                await standing_well(server, session)

    wait(scenario())


@pytest.mark.clause("D12")
def test_a_status_shows_the_trouble_of_a_turn_that_has_given_up_on_its_record(
    tmp_path: Path, wait: Wait
) -> None:
    async def scenario() -> None:
        hold = Hold(answer=ANSWER)
        with SessionDB(tmp_path / "holdfast.db") as db:
            async with a_host(db, [hold], agent_options=AgentOptions(store_seconds=0)) as host:
                await host.send("s", "go")
                await hold.reached.wait()
                full(db, 5)
                hold.opened.set()
                await until_seen(lambda: trouble(host))
                assert "is full" in (await host.overview.status()).troubles["s"]
                full(db, None)
                events = await until_turns_end(host, "s")
                assert isinstance(events[-1], TurnCompleted), "the answer was whole"
                await until_seen(lambda: no_trouble(host))
                assert (await host.overview.status()).troubles == {}

    wait(scenario())
