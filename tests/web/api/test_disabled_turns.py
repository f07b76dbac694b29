"""A turn of an account that is disabled meanwhile is stopped, and the transcript says why."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from holdfast.host.disabled_accounts import ACCOUNT_DISABLED
from holdfast.sessions import SessionDB
from holdfast.testing import Call
from tests.agent.agent_fixtures import until
from tests.web.api.account_fixtures import a_server, account

pytestmark = pytest.mark.clause("S5")
Wait = Callable[[Awaitable[Any]], Any]


def test_disabling_an_account_stops_its_turn_and_no_other(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        script = (Call("ask", {}), Call("ask", {}), "of Ben", "never said")
        async with (
            a_server(db, *script) as server,
            account(server, db, "Ada") as ada,
            account(server, db, "Ben") as ben,
        ):
            sessions: list[str] = []
            for each in (ada, ben):
                begun = await each.http.post("/api/sessions", json={"message": {"text": "hi"}})
                sessions.append(str(begun.json()["id"]))
                await until(lambda: bool(db.asks.open(sessions[-1])))
            adas, bens = sessions
            waits = await ada.http.post(f"/api/sessions/{adas}/send", json={"text": "and then?"})
            assert waits.status_code == 202
            db.users.disable(ada.user.id)  # as `holdfast users disable` does, in another process
            await until(lambda: "cut off here" in str(db.get_messages(adas)))
            [told] = [each for each in db.get_messages(adas) if "cut off here" in str(each["content"])]
            assert told["content"] == f"[cut off here: {ACCOUNT_DISABLED}]"
            # What waited is not lost: it is in the transcript, with why it was not answered.
            await until(lambda: "this account is disabled" in str(db.get_messages(adas)[-1]["content"]))
            assert "and then?" in str(db.get_messages(adas))
            assert "Ask who runs this installation" in str(db.get_messages(adas)[-1]["content"])
            [asked] = db.asks.open(bens)
            answer = await ben.http.post(f"/api/sessions/{bens}/answers/{asked.id}", json={"text": "blue"})
            assert answer.status_code == 200, answer.text
            await until(lambda: "of Ben" in str(db.get_messages(bens)))
            assert "cut off" not in str(db.get_messages(bens))

    wait(scenario())
