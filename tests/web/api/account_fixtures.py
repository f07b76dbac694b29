"""Accounts on a server of a test, and a victim with something of each kind that another could reach."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from holdfast.host.contract import default_policy
from holdfast.memory import MemoryManager
from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import User, UserRole
from holdfast.testing import Call, RecordingProvider
from holdfast.tools.contract import ToolContext
from holdfast.wiring.account_policies import AccountPolicies
from tests.agent.agent_fixtures import DEADLINE, a_tool, until
from tests.web.api.api_server import Served, served

MARKER = "xylophone"
"""A word of the victim's, in everything that the victim has."""


class Remembering(RecordingProvider):
    """Recalls all that was said, of each scope apart."""

    def __init__(self, scope: str = "") -> None:
        super().__init__("apart")
        self.scopes: dict[str, Remembering] = {}
        self.scope = scope

    def for_scope(self, scope: str) -> "Remembering":
        return self.scopes.setdefault(scope, Remembering(scope))

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        return " ".join(each.user_content for each in self.turns)


@dataclass(frozen=True)
class Account:
    """An account, its secret, and a client that shows it."""

    user: User
    secret: str
    http: httpx2.AsyncClient

    @property
    def scope(self) -> str:
        return self.user.scope


@asynccontextmanager
async def account(
    server: Served,
    db: SessionDB,
    name: str,
    role: UserRole = "user",
    *,
    daily_turns: int | None = None,
    daily_tokens: int | None = None,
) -> AsyncIterator[Account]:
    made = db.users.create(name, role, daily_turns=daily_turns, daily_tokens=daily_tokens)
    secret, _ = db.users.issue_token(made.id, "test")
    headers = {"Authorization": f"Bearer {secret}"}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=server.url, headers=headers, timeout=DEADLINE, limits=limits
    ) as http:
        yield Account(made, secret, http)


@dataclass(frozen=True)
class Victim:
    """The ids of what an account has."""

    account: Account
    done: str
    """A conversation with a completed turn."""
    asking: str
    """One whose turn asks, and in which a message waits."""
    turn_id: str
    ask_id: str
    inbox_id: int
    response_id: str
    response_session: str
    key: str

    @property
    def names(self) -> dict[str, str]:
        """What a path may name, by its parameter."""
        return {
            "session_id": self.done,
            "turn_id": self.turn_id,
            "ask_id": self.ask_id,
            "inbox_id": str(self.inbox_id),
            "response_id": self.response_id,
            "delivery_id": "1",
            "forgetting_id": "1",
            "post_id": "1",
            "code": "CODE",
            "account": "a",
            "person:path": "p",
            "person": "p",
            "name:path": "n",
            "name": "n",
            "model": "holdfast",
            "user_id": self.account.user.id,
            "token_id": "x",
        }


async def ask(context: ToolContext, _: dict[str, Any]) -> str:
    return f"the person says {await context.person.answer(f'which {MARKER}?')}"


@asynccontextmanager
async def a_server(db: SessionDB, *script: Any, **more: Any) -> AsyncIterator[Served]:  # noqa: ANN401 - of a script
    memory = MemoryManager(db, drain_seconds=1.0)
    memory.add_provider(Remembering())
    tools = [a_tool("ask", ask, timeout=None)]
    policy = AccountPolicies(db.users, default_policy)
    async with served(db, list(script), tools=tools, memory=memory, scope_policy=policy, **more) as server:
        yield server


SCRIPT = (f"the {MARKER} is blue", f"as a response: {MARKER}", Call("ask", {}))
"""The model's answers while a victim is made."""


async def made_victim(db: SessionDB, ada: Account) -> Victim:
    """An account with conversations; the server's model answers with `SCRIPT` first."""
    body = {"title": f"about {MARKER}", "message": {"text": f"my {MARKER} please", "key": "same-key"}}
    answer = await ada.http.post("/api/sessions", json=body)
    assert answer.status_code == 201, answer.text
    done = str(answer.json()["id"])
    await until(lambda: any(MARKER in str(each["content"]) for each in db.get_messages(done)[1:]))
    answer = await ada.http.post("/v1/responses", json={"input": f"respond about {MARKER}"})
    assert answer.status_code == 200, answer.text
    response = answer.json()
    answer = await ada.http.post("/api/sessions", json={"message": {"text": f"ask me of {MARKER}"}})
    asking = str(answer.json()["id"])
    await until(lambda: bool(db.asks.open(asking)))
    [opened] = db.asks.open(asking)
    sent = await ada.http.post(f"/api/sessions/{asking}/send", json={"text": f"waits, {MARKER}"})
    assert sent.status_code == 202, sent.text
    turn_id = next(each.turn_id for each in db.sessions.read(done) if each.turn_id)
    return Victim(
        ada,
        done,
        asking,
        turn_id,
        opened.id,
        int(sent.json()["inbox_id"]),
        str(response["id"]),
        str(response["conversation"]["id"]),
        "same-key",
    )
