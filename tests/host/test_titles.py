"""Titles that the model makes after the first turn, in the background, and never instead of a person's."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from holdfast.agent.title import TitleMaker, usable_title
from holdfast.host import HostParts, SessionHost
from holdfast.host.contract import Beginning
from holdfast.models.contract import ModelTraits
from holdfast.sessions import SessionDB
from holdfast.sessions.conversation_list import name_conversation
from holdfast.sessions.usage import UsageEntry
from holdfast.testing import ScriptedModel, Tokens
from tests.agent.agent_fixtures import Hold, until
from tests.host.host_fixtures import QUICK, host_parts, until_turns_end

Wait = Callable[[Awaitable[Any]], Any]


def parts_with(db: SessionDB, titles: ScriptedModel, source: str = "web") -> HostParts:
    parts = host_parts(db, ["One.", "Two.", "Three.", "Four."], options=replace(QUICK, source=source))
    return replace(parts, titles=TitleMaker(titles), closes_store=False)


async def title_of(host: SessionHost, session_id: str) -> str | None:
    return (await host.records.session(session_id)).session.title


def test_the_model_names_a_conversation_after_its_first_turn_and_the_cost_is_kept(
    db: SessionDB, wait: Wait
) -> None:
    async def scenario() -> None:
        model = ScriptedModel([[' "Baking **bread**" \n', Tokens(40, 5)], "Another title"])
        async with SessionHost(parts_with(db, model)) as host:
            changes = host.overview.changes()
            await host.send("s", "How do I bake bread?")
            await until_turns_end(host, "s")
            async for change in changes:  # a list that somebody looks at gets it by itself
                if change.title:
                    break
            assert change.title == "Baking bread"
            [request] = model.requests
            assert "How do I bake bread?" in str(request.messages)
            assert not request.tools
            await host.send("s", "And rolls?")
            await until_turns_end(host, "s", turns=2)
            assert len(model.requests) == 1, "one that has a title gets no other"

    wait(scenario())
    [usage] = [each for each in db.usage.read(session_id="s") if each.purpose == "title"]
    assert (usage.input, usage.output) == (40, 5)


def test_what_a_person_decided_stays_whenever_the_model_comes(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        hold = Hold("A model's title")
        model = ScriptedModel([hold])
        async with SessionHost(parts_with(db, model)) as host:
            await host.send("s", "hello")
            await until_turns_end(host, "s")
            await hold.reached.wait()
            await host.records.rename("s", "Mine")
            hold.opened.set()
            await until(lambda: model.played == 1 and hold.left.is_set())
            await host.send("s", "more")
            await until_turns_end(host, "s", turns=2)
            assert await title_of(host, "s") == "Mine"

    wait(scenario())
    db.create_session("empty", source="web", title="x")
    db.conversations.set_title("empty", None)  # a person wants none
    for session_id in ("s", "empty"):
        before = db.get_session(session_id)
        made = name_conversation(session_id, "made", UsageEntry("title", "m"))
        assert not db._engine.write(made)  # noqa: SLF001
        assert db.get_session(session_id) == before
        assert not db.conversations.is_untitled(session_id)


def test_a_title_makes_room_for_a_turn_and_for_the_exit_and_comes_later(db: SessionDB, wait: Wait) -> None:
    async def scenario() -> None:
        first, second = Hold("too late"), Hold("too late")
        model = ScriptedModel([first, second])
        async with SessionHost(parts_with(db, model)) as host:
            await host.send("s", "hello")
            await first.reached.wait()
            await host.send("s", "the next one does not wait")
            await until_turns_end(host, "s", turns=2)
            assert first.left.is_set()
            await second.reached.wait()
        assert second.left.is_set()
        later = ScriptedModel(["Made later"])
        async with SessionHost(parts_with(db, later)) as host:
            assert await title_of(host, "s") is None
            await host.send("s", "after a restart")
            await until(lambda: getattr(db.get_session("s"), "title", None) == "Made later")

    wait(scenario())


@pytest.mark.parametrize("source", ["cli", "web", "acp"])
def test_wherever_a_person_talks_the_conversation_gets_a_title(
    db: SessionDB, wait: Wait, source: str
) -> None:
    async def scenario() -> None:
        async with SessionHost(parts_with(db, ScriptedModel(["Baking bread"]), source)) as host:
            await host.send("s", "How do I bake bread?")
            await until(lambda: getattr(db.get_session("s"), "title", None) == "Baking bread")

    wait(scenario())


@pytest.mark.parametrize("source", ["api", "schedule", "gateway"])
def test_only_what_people_talk_about_gets_a_title(db: SessionDB, wait: Wait, source: str) -> None:
    async def scenario() -> None:
        titles, weak = (
            ScriptedModel(["no"]),
            ScriptedModel(traits=ModelTraits("weak", 8000, summarises=False)),
        )
        async with SessionHost(parts_with(db, titles, source)) as host:
            await host.begin("s", "hello", Beginning(source=source))
            await until_turns_end(host, "s")
        async with SessionHost(parts_with(db, weak)) as host:
            await host.send("t", "How do I bake bread? Tell me in detail.")
            await until_turns_end(host, "t")
            listed = await host.records.session("t")
            assert listed.session.title is None
            assert listed.label == "How do I bake bread?"
            branch = await host.records.branch("t")
            assert (await host.records.session(branch)).branch_of == "How do I bake bread?"
        assert titles.requests == weak.requests == []

    wait(scenario())


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ("Title: Bread", "Bread"),
        ("“Bread”\n\nIt is about bread.", "Bread"),
        ("", ""),
        ("\n \n", ""),
        ("I can't name this, because " + "it is so long " * 9, ""),
    ],
)
def test_a_title_is_one_short_line(answer: str, title: str) -> None:
    assert usable_title(answer) == title
