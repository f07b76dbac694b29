"""A call counts from its end, as nobody knows when the platform counted it. Unwanted calls leave."""

import asyncio

import pytest

from holdfast.gateway.rate_budget import TurnReplaced
from holdfast.process import run
from tests.gateway.test_rate_budget import Account


def test_the_account_counts_a_call_from_its_end() -> None:
    async def story() -> None:
        account, answered = Account(account_per_second=1.0), asyncio.Event()

        async def slow() -> None:
            await answered.wait()

        account.start(account.called("a", "send", "", slow))
        await account.clock.settle()
        account.ask("b")
        await account.clock.let_pass(5)
        assert account.calls == []
        answered.set()
        await account.clock.let_pass(0.9)
        assert account.calls == []
        await account.clock.let_pass(0.2)
        assert account.calls == [(6.0, "b:send")]

    run(story())


def test_an_edit_and_a_typing_that_are_not_wanted_any_more_leave_the_queue() -> None:
    async def story() -> None:
        account = Account(account_per_second=1.0)
        account.ask("first")
        await account.clock.settle()
        edit, typing = account.asked("a", "edit", "m1"), account.asked("a", "typing")
        account.ask("a", "edit", "m2")
        account.ask("b", "edit", "m1")
        await account.clock.settle()
        account.budget.withdraw("a", "m1")
        for task in (edit, typing):
            with pytest.raises(TurnReplaced):
                await task
        account.budget.withdraw("a", "m1")
        account.budget.withdraw("nowhere", "m1")
        await account.clock.let_pass(5)
        assert account.names == ["first:send", "a:edit", "b:edit"]
        assert account.budget.waiting == 0

    run(story())
