"""One budget for all calls of an account: limits, order, fairness, and what "slow down" holds up."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gateway.contract import AdapterTraits, NotTaken, Outgoing, Route, SlowDown
from holdfast.gateway.rate_budget import KINDS, BudgetFull, RateBudget, TurnKind, TurnReplaced
from holdfast.process import run
from holdfast.testing.async_clock import AsyncFakeClock
from holdfast.testing.memory_chats import MemoryOptions
from holdfast.testing.memory_platform import MemoryPlatform


class Account:
    """A budget on a clock of its own, and the calls that it let through."""

    def __init__(
        self, chat_seconds: float = 1.0, account_per_second: float = 30.0, most: int = 10_000
    ) -> None:
        self.clock = AsyncFakeClock()
        self.traits = AdapterTraits(
            100, "key", chat_seconds=chat_seconds, account_per_second=account_per_second
        )
        self.budget = RateBudget(self.traits, self.clock, self.clock.sleep, most)
        self.calls: list[tuple[float, str]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def ask(self, chat: str, kind: TurnKind = "send", about: str = "", name: str = "") -> None:
        """Make a call as soon as the budget allows; it takes no time."""
        self.tasks.append(self.asked(chat, kind, about, name))

    def asked(
        self, chat: str, kind: TurnKind = "send", about: str = "", name: str = ""
    ) -> asyncio.Task[None]:
        """`ask`, for one whose outcome matters."""

        async def call() -> None:
            self.calls.append((round(self.clock.monotonic(), 6), name or f"{chat}:{kind}"))

        return asyncio.create_task(self.called(chat, kind, about, call))

    def start(self, call: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.create_task(call))

    async def called(
        self, chat: str, kind: TurnKind, about: str, call: Callable[[], Awaitable[None]]
    ) -> None:
        async with self.budget.turn(chat, kind, about):
            await call()

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.calls]


def test_a_chat_has_its_least_time_between_calls_and_other_chats_do_not_wait() -> None:
    async def story() -> None:
        account = Account(chat_seconds=2.0)
        for _ in range(3):
            account.ask("a")
        account.ask("b")
        await account.clock.let_pass(10)
        assert account.calls == [(0.0, "a:send"), (0.0, "b:send"), (2.0, "a:send"), (4.0, "a:send")]

    run(story())


def test_a_group_gets_so_many_messages_in_a_minute_and_its_typing_costs_less() -> None:
    async def story() -> None:
        clock = AsyncFakeClock()
        traits = AdapterTraits(100, "key", chat_seconds=1.0, group_seconds=3.0)
        budget, calls = RateBudget(traits, clock, clock.sleep), list[tuple[float, str]]()

        async def call(chat: str, kind: TurnKind, *, is_group: bool) -> None:
            async with budget.turn(chat, kind, is_group=is_group):
                calls.append((clock.monotonic(), chat))

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(call("group", "typing", is_group=True))
            await clock.settle()
            for _ in range(30):
                tasks.create_task(call("group", "send", is_group=True))
                tasks.create_task(call("ada", "send", is_group=False))
            await clock.let_pass(100)
        group = [at for at, chat in calls if chat == "group"]
        assert group == [0.0, *(1.0 + 3.0 * number for number in range(30))]
        assert [at for at, chat in calls if chat == "ada"] == [float(number) for number in range(30)]

    run(story())


def test_a_call_that_takes_long_holds_up_its_own_chat_alone() -> None:
    async def story() -> None:
        account, answered = Account(), asyncio.Event()

        async def wait_for_the_platform() -> None:
            await answered.wait()

        account.start(account.called("a", "send", "", wait_for_the_platform))
        await account.clock.settle()
        account.ask("a")
        account.ask("b")
        await account.clock.let_pass(5)
        assert account.calls == [(0.0, "b:send")]
        answered.set()
        await account.clock.settle()
        assert account.calls[1:] == []
        await account.clock.let_pass(1)
        assert account.calls[1:] == [(6.0, "a:send")]

    run(story())


@pytest.mark.parametrize(("rate", "times"), [(3.0, [0, 0, 0, 1, 1, 1, 2]), (0.25, [0, 4, 8])])
def test_the_account_makes_so_many_calls_in_a_second(rate: float, times: list[float]) -> None:
    async def story() -> None:
        account = Account(account_per_second=rate)
        for number in range(len(times)):
            account.ask(f"chat{number}")
        await account.clock.let_pass(10)
        assert [at for at, _ in account.calls] == times

    run(story())


def test_sends_go_before_edits_and_edits_before_typing() -> None:
    async def story() -> None:
        account = Account(account_per_second=1.0)
        account.ask("first")
        await account.clock.settle()
        account.ask("a", "typing")
        account.ask("b", "edit", "m1")
        account.ask("c", "send")
        account.ask("b", "send")
        await account.clock.let_pass(10)
        assert account.names == ["first:send", "c:send", "b:send", "b:edit", "a:typing"]

    run(story())


def test_an_edit_that_waits_is_replaced_and_the_newer_one_keeps_its_place() -> None:
    async def story() -> None:
        account = Account(chat_seconds=1.0)
        account.ask("a")
        await account.clock.settle()
        old = account.asked("a", "edit", "m1", "old")
        account.ask("a", "edit", "m2", "other message")
        account.ask("a", "edit", "m1", "new")
        await account.clock.let_pass(10)
        with pytest.raises(TurnReplaced):
            await old
        assert account.calls == [(0.0, "a:send"), (1.0, "new"), (2.0, "other message")]
        assert account.budget.waiting == 0

    run(story())


def test_typing_is_replaced_and_never_queued_twice() -> None:
    async def story() -> None:
        account = Account(chat_seconds=1.0)
        account.ask("a")
        await account.clock.settle()
        typing = [account.asked("a", "typing") for _ in range(5)]
        await account.clock.settle()
        assert account.budget.waiting == 1
        await account.clock.let_pass(10)
        assert account.names == ["a:send", "a:typing"]
        replaced = await asyncio.gather(*typing[:4], return_exceptions=True)
        assert all(isinstance(each, TurnReplaced) for each in replaced)

    run(story())


def test_the_answer_goes_first_and_replaces_the_edits_of_its_preview() -> None:
    async def story() -> None:
        account = Account(chat_seconds=1.0)
        account.ask("a")
        await account.clock.settle()
        other = account.asked("a", "edit", "m2", "other preview")
        preview = account.asked("a", "edit", "m1", "preview")
        account.ask("a", "send", "m1", "answer")
        account.ask("a", "send", "", "next message")
        await account.clock.let_pass(10)
        assert account.names == ["a:send", "answer", "next message", "other preview"]
        with pytest.raises(TurnReplaced):
            await preview
        await other

    run(story())


def test_a_chat_with_much_to_say_does_not_hold_up_the_others() -> None:
    async def story() -> None:
        account = Account(chat_seconds=0.0, account_per_second=2.0)
        for _ in range(20):
            account.ask("loud")
        await account.clock.settle()
        for number in range(3):
            account.ask(f"quiet{number}")
            account.ask(f"quiet{number}")
        await account.clock.let_pass(4)
        rounds = [sorted(account.names[start : start + 4]) for start in (2, 6)]
        assert rounds == [["loud:send", "quiet0:send", "quiet1:send", "quiet2:send"]] * 2

    run(story())


@pytest.mark.clause("G5")
@pytest.mark.parametrize(("whole_account", "others_at"), [(False, 1.0), (True, 31.0)])
def test_slow_down_holds_up_that_chat_or_the_account_when_the_platform_says_so(
    whole_account: bool, others_at: float
) -> None:
    async def story() -> None:
        account = Account(account_per_second=1.0)

        async def refused() -> None:
            raise SlowDown(30.0, whole_account=whole_account)

        with pytest.raises(SlowDown):
            await account.called("a", "send", "", refused)
        account.ask("a")
        account.ask("b")
        await account.clock.let_pass(100)
        times = {name: at for at, name in account.calls}
        assert times["b:send"] == others_at
        assert times["a:send"] == 30.0

    run(story())


def test_a_call_that_fails_gives_its_chat_free() -> None:
    async def story() -> None:
        account = Account()

        async def broken() -> None:
            raise NotTaken("the connection broke")

        with pytest.raises(NotTaken):
            await account.called("a", "send", "", broken)
        account.ask("a")
        await account.clock.let_pass(1)
        assert account.calls == [(1.0, "a:send")]

    run(story())


def test_what_waits_can_be_cancelled_also_in_the_moment_of_its_turn() -> None:
    async def story() -> None:
        account = Account(chat_seconds=1.0)
        account.ask("a")
        await account.clock.settle()
        waiting = account.asked("a", name="cancelled")
        account.ask("a", name="next")
        await account.clock.settle()
        waiting.cancel()
        await account.clock.let_pass(1)
        assert account.names == ["a:send", "next"]

        assert (account.budget.waiting, account.clock.sleeping) == (0, 0)

    run(story())


def test_a_call_that_is_cancelled_in_the_moment_of_its_turn_gives_its_chat_free() -> None:
    async def story() -> None:
        account, answered = Account(chat_seconds=0.0), asyncio.Event()

        async def wait_for_the_platform() -> None:
            await answered.wait()

        account.start(account.called("a", "send", "", wait_for_the_platform))
        await account.clock.settle()
        granted = account.asked("a", name="cancelled with its turn")
        account.ask("a", name="after it")
        await account.clock.settle()
        answered.set()  # the running call ends, which gives the turn; the cancellation comes right behind
        asyncio.get_running_loop().call_soon(granted.cancel)
        await account.clock.let_pass(5)
        assert granted.cancelled()
        assert account.names == ["after it"]
        assert (account.budget.waiting, account.clock.sleeping) == (0, 0)

    run(story())


def test_a_cancelled_call_that_still_stands_in_the_queue_is_passed_over() -> None:
    async def story() -> None:
        account, answered = Account(chat_seconds=0.0), asyncio.Event()

        async def wait_for_the_platform() -> None:
            await answered.wait()

        account.start(account.called("a", "send", "", wait_for_the_platform))
        await account.clock.settle()
        waiting = account.asked("a", name="cancelled")
        account.ask("a", name="next")
        await account.clock.settle()
        answered.set()  # the running call ends first, then the cancelled one learns of it
        waiting.cancel()
        await account.clock.settle()
        assert account.names == ["next"]

    run(story())


def test_no_more_wait_than_the_bound_and_one_that_replaces_another_does_not_count() -> None:
    async def story() -> None:
        account = Account(most=2)
        account.ask("a")
        await account.clock.settle()
        old = account.asked("a", "edit", "m1", "old")
        account.ask("a")
        await account.clock.settle()
        with pytest.raises(BudgetFull):
            await account.asked("b", "typing")
        account.ask("a", "edit", "m1", "new")
        await account.clock.let_pass(5)
        assert account.names == ["a:send", "a:send", "new"]
        with pytest.raises(TurnReplaced):
            await old

    run(story())


def test_closing_ends_every_wait_and_leaves_no_task() -> None:
    async def story() -> None:
        account = Account()
        account.ask("a")
        await account.clock.settle()
        waiting = account.asked("a")
        await account.clock.settle()
        await account.budget.close()
        await account.budget.close()
        with pytest.raises(NotTaken):
            await waiting
        with pytest.raises(NotTaken):
            await account.asked("b")
        await account.clock.settle()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(story())


def test_chats_that_are_idle_are_forgotten() -> None:
    async def story() -> None:
        account = Account(chat_seconds=1.0, account_per_second=10_000.0)
        for number in range(5_000):
            async with account.budget.turn(f"chat{number}", "send"):
                pass
            account.clock.advance(0.01)
        assert len(account.budget._chats) <= 1_100  # noqa: SLF001 - what it holds on to is not to be seen otherwise

    run(story())


def test_two_hundred_chats_over_one_account_are_never_told_to_slow_down() -> None:
    async def story() -> None:
        account = Account(chat_seconds=1.0, account_per_second=30.0)
        options = MemoryOptions(enforces_limits=True)
        platform = MemoryPlatform(account.traits, clock=account.clock, options=options)
        adapter = platform.adapter()
        routes = [Route(await platform.direct(f"person{number}")) for number in range(200)]

        async def answer(route: Route) -> None:
            async with account.budget.turn(route.place.chat, "typing"):
                await adapter.show_typing(route)
            async with account.budget.turn(route.place.chat, "send"):
                sent = await adapter.send(route, Outgoing("preview"), f"key-{route.place.chat}")
            async with account.budget.turn(route.place.chat, "send", sent):
                await adapter.edit(route, sent, Outgoing("answer"))

        for route in routes:
            account.start(answer(route))
        await account.clock.let_pass(600 / 30 + 3)
        await asyncio.gather(*account.tasks)
        assert [platform.seen(route.place)[0].text for route in routes] == ["answer"] * 200
        assert len(platform.calls()) == 600
        assert all(each.taken for each in platform.calls())

    run(story())


asked = st.lists(
    st.tuples(
        st.sampled_from("abc"), st.sampled_from(KINDS), st.sampled_from(["", "m1", "m2"]), st.floats(0.0, 2.0)
    ),
    max_size=40,
)


@settings(max_examples=40)
@given(asked, st.sampled_from([0.0, 0.3, 1.0, 3.0]), st.sampled_from([0.5, 1.0, 4.0]))
def test_whatever_is_asked_the_limits_hold_and_every_send_is_made(
    calls: list[tuple[str, TurnKind, str, float]], chat_seconds: float, rate: float
) -> None:
    async def story() -> None:
        account = Account(chat_seconds, rate)
        for chat, kind, about, pause in calls:
            account.ask(chat, kind, about)
            await account.clock.let_pass(pause)
        await account.clock.let_pass(len(calls) * (chat_seconds + 1 / rate) + 1)
        ended = await asyncio.gather(*account.tasks, return_exceptions=True)
        for (_, kind, *_), outcome in zip(calls, ended, strict=True):
            assert outcome is None or (isinstance(outcome, TurnReplaced) and kind != "send")
        window, most = max(1.0, 1 / rate), max(1, int(rate))
        times = [at for at, _ in account.calls]
        assert all(later - first >= window - 1e-5 for first, later in zip(times, times[most:], strict=False))
        for chat in "abc":
            own = [at for at, name in account.calls if name.startswith(chat)]
            assert all(later - first >= chat_seconds - 1e-5 for first, later in pairwise(own))

    run(story())
