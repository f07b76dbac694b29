"""Where the table of accesses lets an account through by mistake, PostgreSQL shows it nothing of others."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from holdfast.sessions import SessionDB
from holdfast.web.access import ACCESS, ONE, Access, AccessGuard
from holdfast.web.app import build_app
from holdfast.web.principal import Principal, put_into
from tests.agent.agent_fixtures import DEADLINE
from tests.sessions.databases import PostgresPlace
from tests.web.api.account_fixtures import MARKER, SCRIPT, a_server, account, made_victim
from tests.web.api.api_server import Served
from tests.web.api.test_accounts_apart import walk

pytestmark = [pytest.mark.slow, pytest.mark.clause("N5")]
Wait = Callable[[Awaitable[Any]], Any]

READS = (ONE, f"{ONE}/messages", f"{ONE}/export", f"{ONE}/turns/{{turn_id}}")


class Mistaken:
    """The application for one account, behind a guard whose table allows everything."""

    def __init__(self, server: Served, principal: Principal) -> None:
        whole = build_app(server.web)
        whole.user_middleware.clear()
        everything = dict.fromkeys(ACCESS, Access.SCOPED)
        self._app: ASGIApp = AccessGuard(whole, server.host, whole.router.routes, everything)
        self._principal = principal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        put_into(scope, self._principal)
        await self._app(scope, receive, send)


def test_a_route_that_asks_for_no_scope_shows_an_account_nothing_of_another(
    postgres: str, wait: Wait
) -> None:
    place = PostgresPlace(postgres)

    async def scenario() -> None:
        async with (
            a_server(db, *SCRIPT) as server,
            account(server, db, "ada") as ada,
            account(server, db, "mallory") as mallory,
        ):
            victim = await made_victim(db, ada)
            for who, sees in ((ada, True), (mallory, False)):
                transport = httpx2.ASGITransport(app=Mistaken(server, Principal(who.user)))
                async with httpx2.AsyncClient(
                    transport=transport, base_url="http://127.0.0.1", timeout=DEADLINE
                ) as http:
                    for path in READS:
                        answer = await http.get(path.format(**victim.names))
                        assert (answer.status_code == 200) is sees, path
                        assert sees or MARKER not in answer.text, path
                    listed = (await http.get("/api/sessions")).text
                    assert (MARKER in listed) is sees

    with SessionDB.open(place.url) as db:
        wait(scenario())
    place.drop()


def test_an_account_is_shown_its_own_by_every_route_behind_the_second_wall(postgres: str, wait: Wait) -> None:
    place = PostgresPlace(postgres)

    async def scenario() -> None:
        async with a_server(db, *SCRIPT) as server, account(server, db, "ada", "admin") as ada:
            victim = await made_victim(db, ada)
            said = await walk(server, ada, victim.names)
            failed = {name: answer for name, answer in said.items() if answer[0] >= 500}
            assert not failed
            # The walk deletes the conversation on its way; what comes after that finds none.
            assert sum(status < 400 for status, _ in said.values()) > len(said) / 4

    with SessionDB.open(place.url) as db:
        wait(scenario())
    place.drop()
