"""What the assistant of the settings does for accounts: by role, in folders of their own, and apart."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Host, SessionDB
from holdfast.agent.scope_policy import EVERYTHING, GUEST
from holdfast.core.ids import new_id
from holdfast.core.settings import Settings
from holdfast.host.turn_handle import AskOptions
from holdfast.models.contract import ModelRequest
from holdfast.sessions.user_records import User, UserChanges, UserRole
from holdfast.testing import Call, ScriptedModel
from holdfast.wiring.account_policies import AccountPolicies
from holdfast.wiring.chat_policies import USER, ChatPolicies
from tests.test_scopes_of_an_assistant import home

pytestmark = pytest.mark.clause("N5", "G6")
__all__ = ["home"]
T = TypeVar("T")
MARKER = "xylophone"


def finish(work: Coroutine[Any, Any, T]) -> T:
    async def main() -> T:
        async with asyncio.timeout(60):
            return await work

    return asyncio.run(main())


def test_a_policy_is_that_of_the_role_the_limits_and_the_state_now() -> None:
    with SessionDB(":memory:") as db:
        policies = AccountPolicies(db.users, ChatPolicies(db.chat_people))
        ada = db.users.create("Ada", "admin", daily_turns=3, daily_tokens=9)
        now = policies(ada.scope)
        assert (now.tools, now.approval, now.daily_turns, now.daily_tokens) == (None, USER.approval, 3, 9)
        db.users.change(ada.id, UserChanges(role="guest", daily_turns=-1))
        now = policies(ada.scope)
        assert (now.tools, now.remembers, now.daily_turns) == (GUEST.tools, False, None)
        assert not now.refusal
        db.users.disable(ada.id)
        assert "disabled" in policies(ada.scope).refusal
        db.users.remove(ada.id)
        assert "removed" in policies(ada.scope).refusal
        assert policies(ada.scope).tools == GUEST.tools
        assert policies("") == EVERYTHING
        assert policies("telegram/1").tools == GUEST.tools


def answered(home: Path, store: SessionDB, user: User, *calls: Call) -> str:
    """What the tools answer to these calls, in a new conversation of the account."""
    seen: list[str] = []

    def last(request: ModelRequest) -> str:
        seen.extend(str(each["content"]) for each in request.messages if each["role"] == "tool")
        return "done"

    async def scenario() -> None:
        named = {"workspace": str(home / "workspace"), "sandbox": "off", "approval": "never-ask"}
        settings = Settings.model_validate({"tools": named})
        model = ScriptedModel([*([each] for each in calls), last])
        async with Host(settings, model=model, store=store) as host:
            await host.ask(new_id(), f"go, {user.name}", AskOptions(scope=user.scope))

    finish(scenario())
    assert len(seen) == len(calls)
    return "\n".join(seen)


@pytest.mark.parametrize("role", ["user", "admin", "guest"])
def test_the_tools_of_one_account_find_nothing_of_another(home: Path, role: UserRole) -> None:
    with SessionDB(home / "store.db") as db:
        ada, ben = db.users.create("Ada"), db.users.create("Ben", role)
        db.create_session("hers", source="web", scope=ada.scope)
        db.sessions.append_messages("hers", [{"role": "user", "content": f"my {MARKER} is here"}])
        search, read = (
            Call("search_sessions", {"query": MARKER}),
            Call("read_session", {"session_id": "hers"}),
        )
        assert MARKER in answered(home, db, ada, search).replace(f"'{MARKER}'", "")
        told = answered(home, db, ben, search, read)
        assert "is here" not in told


def test_a_user_has_a_folder_of_its_own_and_a_guest_none(home: Path) -> None:
    with SessionDB(home / "store.db") as db:
        ada, ben = db.users.create("Ada"), db.users.create("Ben")
        guest = db.users.create("Guest", "guest")
        write = Call("write_file", {"path": "note.txt", "text": MARKER})
        read = Call("read_file", {"path": "note.txt"})
        owners = Call("read_file", {"path": str(home / "workspace" / "owners.txt")})
        assert MARKER in answered(home, db, ada, write, read)
        told = answered(home, db, ben, read, owners)
        assert MARKER not in told
        assert "the owner's words" not in told
        assert MARKER not in answered(home, db, guest, write, read)
