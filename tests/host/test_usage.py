"""Tokens and cost are counted exactly, for turns, subagents and days, on either engine."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest

from holdfast import Host, Settings
from holdfast.agent import AgentOptions, SessionAgent
from holdfast.agent.delegation import Offer, delegate_tool
from holdfast.core.contract import Message
from holdfast.core.errors import InvalidInput
from holdfast.core.settings import MemorySettings, ToolSettings
from holdfast.host.usage_reports import usage_report
from holdfast.memory.contract import TextCompletion
from holdfast.models.contract import ModelRequest, ModelTraits, Prices
from holdfast.models.known_prices import PRICES_AS_OF, known_prices
from holdfast.sessions import SessionDB
from holdfast.sessions.usage import UsageEntry
from holdfast.testing import ScriptedModel
from holdfast.testing.providers import RecordingProvider
from holdfast.testing.scripted_model import Call, Entry, Tokens
from tests.agent.agent_fixtures import until
from tests.host.host_fixtures import a_host

Wait = Callable[[Awaitable[Any]], Any]
# A tenth of a cent has no exact binary form: floats would drift.
PRICED = ModelTraits("priced", 100_000, prices=Prices(0.1, 0.7, 0.01))


def test_a_turn_counts_its_subagents_and_a_deleted_conversation_stays_in_the_sum(
    db: SessionDB, wait: Wait
) -> None:
    script = [
        [Call("delegate", {"tasks": [{"task": "look"}]}), Tokens(1000, 10, 400)],
        ["found", Tokens(300, 30)],
        ["done", Tokens(2000, 20, 1000)],
    ]
    model = ScriptedModel(script, traits=PRICED)

    async def scenario() -> None:
        agent = SessionAgent(model, db, "s", tools=[delegate_tool(Offer(model, db))], options=AgentOptions())
        result = await agent.run("go")
        own = (600 * Decimal("0.1") + 400 * Decimal("0.01") + 10 * Decimal("0.7")) + (
            1000 * Decimal("0.1") + 1000 * Decimal("0.01") + 20 * Decimal("0.7")
        )
        assert result.cost == own / 1_000_000
        inner = (300 * Decimal("0.1") + 30 * Decimal("0.7")) / 1_000_000
        await agent.close()
        async with a_host(db) as host:
            total = await host.usage.turn(result.turn_id)
            assert (total.requests, total.input_tokens, total.output_tokens) == (3, 3300, 60)
            assert total.cost is not None
            assert Decimal(total.cost) == own / 1_000_000 + inner
            assert (await host.overview.turn(result.turn_id)).usage == total
            assert await host.usage.conversation("s") == total
            by_purpose = await host.usage.report(by="purpose")
            assert {each.key: each.total.requests for each in by_purpose.groups} == {"turn": 2, "subagent": 1}

            # A price that is not known is never counted as 0.
            assert (await host.ask("other", "hello")).cost is None
            named = {each.title: each.total for each in (await host.usage.report(by="conversation")).groups}
            assert (named["hello"].cost, named["hello"].unpriced_requests) == (None, 1)
            assert named["go"].cost == total.cost
            await host.delete("s", force=True)
            day = await host.usage.report(days=1)
            assert (day.total.cost, day.total.known_cost, day.total.requests) == (None, total.cost, 4)
            assert (await host.usage.report(by="model")).groups[0].key == "priced"
            for days in (0, 100_000):
                with pytest.raises(InvalidInput):
                    await host.usage.report(days)

    wait(scenario())


class AskingProvider(RecordingProvider):
    """Asks the model at the end of a session, for that session."""

    complete: TextCompletion

    def initialize(self, session_id: str, *, complete: Any = None, **_: object) -> None:  # noqa: ANN401
        self.complete = complete

    def on_session_end(self, messages: list[Message], *, session_id: str = "") -> None:
        self.note("answer", self.complete("Extract.", "all of it", session_id=session_id))


def by_request(request: ModelRequest) -> list[Entry]:
    """An answer whose tokens tell what it is for."""
    if request.system == "Extract.":
        return ["a fact", Tokens(5, 1)]
    if "You look back" in request.system:
        return ["nothing to save", Tokens(70, 7)]
    return ["an answer", Tokens(1000, 10)]


async def counted(db: SessionDB, purpose: str) -> None:
    """Wait until requests for this purpose are on record."""
    await until(lambda: purpose in {each.purpose for each in db.usage.read()})


def test_reviews_and_what_memory_asks_count_for_the_conversation_they_belong_to(
    db: SessionDB, wait: Wait
) -> None:
    provider = AskingProvider("asking")
    settings = Settings(memory=MemorySettings(review_every=1), tools=ToolSettings(profile="all"))
    model = ScriptedModel([by_request] * 9, traits=PRICED)

    async def scenario() -> None:
        async with Host(settings, model=model, memory=[provider], store=db) as host:
            await host.ask("s", "one")
            await counted(db, "review")
            assert (await host.usage.conversation("s")).input_tokens == 1070
            await host.new_session("s")
            await counted(db, "memory")
            total = await host.usage.conversation("s")
            assert (total.requests, total.input_tokens, total.output_tokens) == (3, 1075, 18)
            assert [each.key for each in (await host.usage.report(by="conversation")).groups] == ["s"]

    wait(scenario())


def test_a_summary_that_a_person_asks_for_counts_for_its_conversation(db: SessionDB, wait: Wait) -> None:
    model = ScriptedModel(
        [["long " * 2000, Tokens(10, 10)], ["so", Tokens(10, 10)], ["in short", Tokens(300, 3)]],
        traits=PRICED,
    )

    async def scenario() -> None:
        async with a_host(db, lambda _: model) as host:
            await host.ask("s", "one")
            await host.ask("s", "two")
            await host.commands.compact("s")
            assert (await host.usage.conversation("s")).input_tokens == 320
            by_purpose = await host.usage.report(by="purpose")
            assert {each.key: each.total.input_tokens for each in by_purpose.groups} == {
                "turn": 20,
                "summary": 300,
            }

    wait(scenario())


def test_what_was_used_for_a_conversation_that_is_gone_counts_for_none(db: SessionDB) -> None:
    db.usage.keep("gone", [UsageEntry("review", "m", input=3)])
    [row] = db.usage.read()
    assert (row.root_id, row.input) == (None, 3)


def test_many_small_costs_add_up_without_drift_and_days_are_told_apart(db: SessionDB) -> None:
    for _ in range(30):
        db.usage.record(None, [UsageEntry("title", "m", cost=Decimal("0.0000001"))])
    [row] = db.usage.read()
    assert (row.cost, row.requests, row.unpriced) == (Decimal("0.000003"), 30, 0)
    later = usage_report(db, row.start / 1_000_000 + 3 * 86_400, 2, "day")
    assert (later.groups, later.total.cost) == ((), "0")


def test_only_a_models_exact_name_has_a_published_price() -> None:
    published = Prices(0.25, 2, 0.025, as_of=PRICES_AS_OF)
    assert known_prices("gpt-5-mini") == known_prices("gpt-5-mini-2025-08-07") == published
    assert known_prices("gpt-5-mini-turbo") == known_prices("gpt-55") == Prices()
