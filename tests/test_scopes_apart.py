"""Whatever people say, note, write and delete: nobody finds a word of another, by any way there is.

The store, the memory and the tools are the real ones. Each word tells whose it is.
"""

import asyncio
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from holdfast.core.clock import SystemClock
from holdfast.core.errors import ToolFailed
from holdfast.core.settings import ToolSettings
from holdfast.memory import MemoryManager
from holdfast.process import DaemonPool, off_loop
from holdfast.providers.local import LocalMemory
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import scope_folder
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.contract import ApprovalRequest, ToolContext
from holdfast.tools.toolbox import ToolDependencies, toolbox
from tests.sessions.databases import PostgresPlace
from tests.sessions.machines.profiles import short
from tests.sessions.store_fixtures import assistant, user

SCOPES = ("", "telegram-main/person-123", "matrix-home/room-abc")
WORD = re.compile(r"w(\d)x\d+")
OUTPUT_ID = re.compile(r'read_output\(id="([^"]+)"')
people = st.sampled_from(range(len(SCOPES)))


class FencedPerson:
    """Approves what a host would without a question: of the owner nothing, of others all that it could."""

    def __init__(self, scope: str) -> None:
        self._policy = ApprovalPolicy("never-ask", fenced=True) if scope else ApprovalPolicy("always-refuse")

    async def approve(self, request: ApprovalRequest) -> bool:
        return self._policy.decide(request) == "allow"

    async def answer(self, question: str, choices: object = ()) -> str | None:
        return None


class Apart(RuleBasedStateMachine):
    """Three people on one installation. `opener` opens the store."""

    opener: ClassVar[Callable[[Path], SessionDB]]

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="scopes-"))
        self.db = type(self).opener(self.folder)
        self.loop, self.pool = asyncio.new_event_loop(), DaemonPool("test", workers=4, backlog=100)
        self.memory = MemoryManager(self.db)
        local = LocalMemory(self.folder / "memory.db", clock=SystemClock(), embedder=_embedder())
        self.memory.add_provider(local)
        for scope in SCOPES:
            self.workspace(scope).mkdir(parents=True)
            self.memory.ask_tool_schemas(30.0, scope=scope).wait()
        self.box = self.loop.run_until_complete(toolbox(ToolSettings(sandbox="off"), self.dependencies()))
        self.tools = {each.name: each for each in self.box.tools}
        self.words = 0
        self.sessions: list[tuple[int, str]] = []
        self.notes: dict[int, dict[int, str]] = {number: {} for number in range(len(SCOPES))}
        self.files: list[Path] = []
        self.outputs: list[str] = []

    def dependencies(self) -> ToolDependencies:
        async def nowhere(session_id: str, message: str) -> None:
            pass

        return ToolDependencies(
            workspace=self.workspace(""),
            data_folder=self.folder / "data",
            environment=dict(os.environ),
            deliver=nowhere,
            off_loop=partial(off_loop, self.pool),
            db=self.db,
        )

    def workspace(self, scope: str) -> Path:
        return self.folder / "workspaces" / scope_folder(scope)

    def word(self, who: int) -> str:
        self.words += 1
        return f"shared harbour w{who}x{self.words}"

    def use(self, who: int, name: str, **arguments: object) -> str:
        """A tool, as the agent of this person uses it; why it failed, if it did."""
        tool = self.tools[name]
        context = ToolContext(
            session_id=f"asking-{who}",
            turn_id="t",
            call_id="c",
            workspace=self.workspace(SCOPES[who]),
            person=FencedPerson(SCOPES[who]),
            emit=lambda _: None,
            off_loop=partial(off_loop, self.pool),
            scope=SCOPES[who],
        )
        try:
            return self.loop.run_until_complete(tool.run(context, tool.check(arguments))).text
        except ToolFailed as failed:
            return str(failed)

    def remember(self, who: int, name: str, **arguments: object) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self.memory.ask_tool(name, arguments, scope=SCOPES[who], timeout=30.0).wait()
        )
        return answer

    @rule(who=people)
    def talk(self, who: int) -> None:
        session_id = f"s{len(self.sessions)}"
        self.sessions.append((who, session_id))
        self.db.create_session(session_id, source="chat", scope=SCOPES[who], title=self.word(who))
        self.say(session_id, who)

    def say(self, session_id: str, who: int) -> None:
        turn = [user(self.word(who)), assistant(self.word(who))]
        owed = self.memory.names_for(SCOPES[who])
        self.db.turns.record(session_id, turn, providers=owed, then=self.memory.wake)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data(), way=st.sampled_from(["rotate", "branch", "delegate"]))
    def go_on(self, data: st.DataObject, way: str) -> None:
        who, session_id = data.draw(st.sampled_from(self.sessions))
        child = f"s{len(self.sessions)}"
        session = self.db.get_session(session_id)
        if session is None or session.ended is not None:
            return
        if way == "rotate":
            self.db.rotate(session_id, child, [user(self.word(who))], carry_from=1)
        elif way == "branch":
            self.db.conversations.branch(session_id, child)
        else:
            self.db.create_session(child, source="delegate", parent=session_id, relation="delegate")
        self.sessions.append((who, child))
        self.say(child, who)

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        _, session_id = data.draw(st.sampled_from(self.sessions))
        if self.db.get_session(session_id) is not None:
            self.db.delete_session(session_id, force=True)

    @rule(who=people)
    def note(self, who: int) -> None:
        text = self.word(who)
        self.notes[who][self.remember(who, "memory_save", text=text)["saved"]] = text

    @precondition(lambda self: any(self.notes.values()))
    @rule(data=st.data(), who=people, name=st.sampled_from(["memory_correct", "memory_forget"]))
    def meddle(self, data: st.DataObject, who: int, name: str) -> None:
        """With a note of anybody, by its id."""
        known = [(owner, note) for owner, notes in self.notes.items() for note in notes]
        owner, note = data.draw(st.sampled_from(known))
        text = self.word(who)
        answer = self.remember(who, name, id=note, **({"text": text} if name == "memory_correct" else {}))
        assert ("error" in answer) == (owner != who)
        if owner == who and name == "memory_correct":
            self.notes[who][note] = text
        elif owner == who:
            del self.notes[who][note]

    @rule(who=people)
    def write(self, who: int) -> None:
        name = f"file{len(self.files)}.txt"
        self.use(who, "write_file", path=name, text=self.word(who))
        self.files.append(self.workspace(SCOPES[who]) / name)

    @rule(who=people)
    def keep_output(self, who: int) -> None:
        budget = self.box.budget.of(SCOPES[who])
        lines = [self.word(who)] * (budget.characters // 10)
        self.outputs += OUTPUT_ID.findall(budget.cut(f"asking-{who}", "\n".join(lines)))

    @rule(who=people)
    def look_everywhere(self, who: int) -> None:
        # The folder's name is made at random and may look like a word.
        found = "\n".join(self.everything(who)).replace(self.folder.name, "")
        assert {int(owner) for owner in WORD.findall(found)} <= {who}, found
        for text in self.notes[who].values():
            assert WORD.search(text)[0] in found  # type: ignore[index]
        for path in self.files:
            if path.is_relative_to(self.workspace(SCOPES[who])):
                assert path.read_text() in found

    def everything(self, who: int) -> Iterator[str]:
        scope = SCOPES[who]
        assert self.memory.flush_pending(30)
        for each in self.memory.ask_recall("shared harbour", session_id=f"q{who}", scope=scope).wait():
            assert each.outcome == "answered"
            yield each.text
        words = " ".join(WORD.search(text)[0] for text in self.notes[who].values())  # type: ignore[index]
        yield json.dumps(self.remember(who, "memory_search", query=f"shared harbour {words}", limit=50))
        yield self.use(who, "search_sessions", query="shared harbour", limit=50)
        for _, session_id in self.sessions:
            yield self.use(who, "read_session", session=session_id, around=50)
        for listed in self.db.conversations.list(scope=scope):
            yield f"{listed.opening} {listed.session.title}"
        for path in self.files:
            yield self.use(who, "read_file", path=str(path))
            yield self.use(who, "read_file", path=path.name)
        for folder in (".", "..", str(self.folder)):
            yield self.use(who, "search_files", pattern="shared", folder=folder)
        for output in self.outputs:
            yield self.use(who, "read_output", id=output)

    def teardown(self) -> None:
        self.memory.shutdown_all()
        with suppress(Exception):
            self.loop.run_until_complete(self.box.close())
        self.loop.close()
        self.pool.close(1)
        self.db.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _embedder() -> Any:  # noqa: ANN401 - the fake, or None
    try:
        from tests.providers.local.hashing_embedder import HashingEmbedder
    except ImportError:
        return None
    return HashingEmbedder()


def run(opener: Callable[[Path], SessionDB], examples: int) -> None:
    machine = type("ApartOnOneStore", (Apart,), {"opener": staticmethod(opener)})
    # Each example takes a second, so a failure is shown as it was found.
    found_first = [Phase.explicit, Phase.generate]
    wanted = settings(short(examples), stateful_step_count=25, phases=found_first)
    run_state_machine_as_test(machine, settings=wanted)


@pytest.mark.clause("G6")
@pytest.mark.slow
def test_nobody_finds_a_word_of_another_on_sqlite() -> None:
    run(lambda folder: SessionDB(folder / "holdfast.db"), 25)


def test_nobody_finds_a_word_of_another_on_postgres(postgres: str) -> None:
    places: list[PostgresPlace] = []

    def opener(_: Path) -> SessionDB:
        places.append(PostgresPlace(postgres))
        return SessionDB.open(places[-1].url)

    try:
        run(opener, 5)
    finally:
        for each in places:
            each.drop()
