"""`Host.begin`: a session, its first message and the lease it runs under, in one step."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.core.errors import SessionNotFound
from holdfast.core.events import SessionTrouble
from holdfast.host import Beginning
from holdfast.sessions import SessionDB
from tests.agent.agent_fixtures import Hold, until
from tests.host.host_fixtures import a_host

Wait = Callable[[Awaitable[Any]], Any]


def said(db: SessionDB, session_id: str) -> list[object]:
    return [message["content"] for message in db.get_messages(session_id)]


@pytest.mark.clause("I1")
def test_what_is_stored_is_run_though_its_sender_has_left(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["one", "two", "three"]) as host:
            for number, send in enumerate((host.begin("s", "first"), host.send("s", "second")), 1):
                sending = asyncio.ensure_future(send)
                await asyncio.sleep(0)  # noqa: TID251 - it is on its way
                sending.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await sending
                await until(lambda number=number: len(db.get_messages("s")) == 2 * number)  # type: ignore[misc]
            await host.send("s", "third")
            await until(lambda: said(db, "s") == ["first", "one", "second", "two", "third", "three"])
            await until(lambda: db.session_holder("s") is None)

    wait(scenario())


@pytest.mark.clause("I1")
def test_two_that_begin_with_one_key_at_once_begin_one_conversation(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        async with a_host(db, ["hello"]) as host:
            begun = await asyncio.gather(
                *(host.begin(f"s{number}", "hi", Beginning(key="once")) for number in range(8))
            )
            [session_id] = {accepted.session_id for accepted, _ in begun}
            await until(lambda: said(db, session_id) == ["hi", "hello"])
            assert [each.session.id for each in db.conversations.list()] == [session_id]

    wait(scenario())


def test_a_conversation_deleted_elsewhere_while_its_message_waits_is_let_go(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        async with a_host(db, ["never"]) as host:
            await host.new_session(session_id="s")
            assert db.hold_session("s", "another process") is not None
            await host.send("s", "hi")
            async with aclosing(await host.event_batches("s", from_now=True)) as batches:
                db.delete_session("s", holder="another process", force=True)
                async for batch in batches:
                    if any(isinstance(numbered.event, SessionTrouble) for numbered in batch):
                        break
            # Nobody waits for anything here any more.
            with pytest.raises(SessionNotFound):
                await host.event_batches("s", after=0)

    wait(scenario())


@pytest.mark.clause("I1")
def test_a_word_to_a_conversation_that_just_began_waits_behind_its_first(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold()
        async with a_host(db, [hold, "two"]) as host:
            await host.begin("s", "first", Beginning([{"role": "user", "content": "before"}], title="talk"))
            await host.send("s", "second")
            await hold.reached.wait()
            hold.opened.set()
            await until(lambda: len(db.get_messages("s")) == 5)
            assert said(db, "s") == ["before", "first", "held", "second", "two"]
            session = db.get_session("s")
            assert session is not None
            assert session.title == "talk"

    wait(scenario())
