"""A person's word settles an ask exactly once, and silence means no."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.errors import InvalidInput
from holdfast.core.events import ApprovalAsked, AskClosed, Event, QuestionAsked
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.contract import ApprovalRequest, refusal
from holdfast.tools.open_questions import CallIds, OpenQuestions, PersonBehindPolicy
from holdfast.tools.output import ResultBudget
from holdfast.tools.terminal import refused, terminal_tool
from tests.tools.call_fixtures import LONG, Calls, finish, until

MAKE = ApprovalRequest("make test", "command")


class Room:
    """A session's questions and the events that its surface sees."""

    def __init__(self, policy: ApprovalPolicy | None = None, seconds: float = LONG) -> None:
        self.questions = OpenQuestions(seconds)
        self.events: list[Event] = []
        self.person = PersonBehindPolicy(
            policy or ApprovalPolicy(), self.questions, self.events.append, CallIds("s", "t", "c")
        )

    async def ask(self, request: ApprovalRequest, *answers: str) -> bool:
        """Ask for approval, and give each answer until one counts."""
        before = len(self.events)
        asking = asyncio.create_task(self.person.approve(request))
        await until(lambda: len(self.events) > before or asking.done())
        for text in answers:
            if self.questions.answer(self.asked().ask_id, text):
                break
        return await asking

    def asked(self) -> Any:  # noqa: ANN401 - either of the two kinds of ask
        return next(each for each in reversed(self.events) if isinstance(each, ApprovalAsked | QuestionAsked))

    def closed(self) -> AskClosed:
        return next(each for each in reversed(self.events) if isinstance(each, AskClosed))


@pytest.mark.parametrize(("text", "done"), [("yes", True), (" Once ", True), ("no", False), ("N", False)])
def test_the_answer_decides(text: str, done: bool) -> None:
    room = Room()
    assert finish(room.ask(MAKE, text)) is done
    assert room.asked().subject == "make test"
    assert (room.asked().call_id, room.asked().seconds) == ("c", LONG)
    assert room.closed().outcome == f"answered: {text}"
    assert room.closed().ask_id == room.asked().ask_id
    assert room.questions.open() == []


def test_once_is_once_and_always_is_for_this_request_in_this_session() -> None:
    async def main() -> None:
        room = Room()
        assert await room.ask(MAKE, "yes")
        assert await room.ask(MAKE, "always")
        assert await room.person.approve(MAKE)
        assert not await room.ask(ApprovalRequest("make all", "command"), "no")

    finish(main())


def test_always_may_name_a_pattern_that_covers_the_request() -> None:
    async def main() -> None:
        room = Room()
        assert await room.ask(MAKE, "always make *")
        assert await room.person.approve(ApprovalRequest("make all", "command"))
        assert await room.ask(ApprovalRequest("ls", "command"), "always git *")
        assert not await room.ask(ApprovalRequest("git log", "command"), "no")

    finish(main())


@pytest.mark.parametrize(
    "request_",
    [
        ApprovalRequest("rm -rf build", "command"),
        ApprovalRequest("/home/me/.config/holdfast/settings.toml", "write", own_files=True),
        ApprovalRequest("ls /home/me", "command", near_own_files=True),
    ],
)
def test_what_is_asked_each_time_can_be_allowed_only_once(request_: ApprovalRequest) -> None:
    async def main() -> None:
        room = Room()
        asking = asyncio.create_task(room.person.approve(request_))
        await until(lambda: bool(room.events))
        assert room.asked().decisions == ("yes", "no")
        for word in ("always", "always *"):
            with pytest.raises(InvalidInput, match="asked about each time"):
                room.questions.answer(room.asked().ask_id, word)
        assert room.questions.answer(room.asked().ask_id, "yes")
        assert await asking
        assert not await room.ask(request_, "no")
        assert room.questions.granted() == ()

    finish(main())


def test_what_a_policy_settles_is_not_asked() -> None:
    room = Room(ApprovalPolicy.of("always-refuse", ["command:make *"]))
    assert finish(room.person.approve(MAKE))
    assert not finish(room.person.approve(ApprovalRequest("ls", "command")))
    assert room.events == []


@pytest.mark.parametrize(
    ("policy", "answer", "reason"),
    [
        (ApprovalPolicy(), "no", "the person did not allow it"),
        (ApprovalPolicy(), "nobody", "nobody is there to allow it"),
        (ApprovalPolicy("never-ask", attended=False), "", "nobody is there to allow it"),
        (ApprovalPolicy("always-refuse"), "", "the setting tools.approval is always-refuse"),
    ],
)
def test_the_model_hears_who_or_what_refused(policy: ApprovalPolicy, answer: str, reason: str) -> None:
    room = Room(policy)
    own = ApprovalRequest("cat web-token", "command", "names Holdfast's own files", own_files=True)
    assert not finish(room.ask(own, *filter(None, [answer])))
    assert refusal(room.person) == reason
    said = refused(own, room.person).text
    assert said.startswith(f"The command was not run: it names Holdfast's own files, and {reason}.")
    assert ("Ask them" in said) == (answer == "no")


def test_silence_means_no() -> None:
    room = Room(seconds=0.01)
    assert finish(room.person.approve(MAKE)) is False
    assert finish(room.person.answer("which?")) is None
    assert room.closed().outcome == "no answer in time"
    assert room.questions.answer(room.asked().ask_id, "yes") is False


@pytest.mark.clause("I5")
def test_a_word_that_comes_when_the_ask_is_closed_does_not_count() -> None:
    async def main() -> None:
        room = Room()
        assert await room.ask(MAKE, "yes")
        assert room.questions.answer(room.asked().ask_id, "no") is False
        assert room.questions.answer("nonsense", "yes") is False

    finish(main())


@pytest.mark.clause("I5")
def test_a_text_that_is_no_answer_to_an_approval_leaves_it_open() -> None:
    async def main() -> None:
        room = Room()
        asking = asyncio.create_task(room.person.approve(MAKE))
        await until(lambda: room.events != [])
        assert room.questions.answer(room.asked().ask_id, "no idea, what does it do?") is False
        assert room.questions.answer(room.asked().ask_id, "") is False
        assert room.questions.open() == [room.asked()]
        assert room.questions.answer(room.asked().ask_id, "yes")
        assert await asking

    finish(main())


@pytest.mark.clause("I6")
def test_an_interrupt_closes_the_ask() -> None:
    async def main() -> None:
        room = Room()
        asking = asyncio.create_task(room.person.approve(MAKE))
        await until(lambda: room.events != [])
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert room.closed().outcome == "interrupted"
        assert room.questions.answer(room.asked().ask_id, "yes") is False

    finish(main())


@pytest.mark.clause("I5")
def test_of_many_threads_that_answer_exactly_one_counts() -> None:
    async def main() -> list[bool]:
        room = Room()
        asking = asyncio.create_task(room.person.answer("which?"))
        await until(lambda: room.events != [])
        counted: list[bool] = []
        together = threading.Barrier(8)

        def say(text: str) -> None:
            together.wait(LONG)
            counted.append(room.questions.answer(room.asked().ask_id, text))

        threads = [threading.Thread(target=say, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        text = await asking
        for thread in threads:
            thread.join(LONG)
        assert room.closed().outcome == f"answered: {text}"
        return counted

    assert sorted(finish(main())) == [False] * 7 + [True]


@pytest.mark.clause("I5")
def test_an_answer_that_raced_the_timeout_is_used_when_it_counted() -> None:
    async def main() -> None:
        for delay in (0.0, 0.001, 0.002, 0.003):
            room = Room(seconds=0.002)
            asking = asyncio.create_task(room.person.answer("which?"))
            await until(lambda room=room: room.events != [])  # type: ignore[misc]
            counted: list[bool] = []
            answering = threading.Timer(
                delay,
                lambda room=room, counted=counted: counted.append(
                    room.questions.answer(room.asked().ask_id, "x")
                ),
            )
            answering.start()
            text = await asking
            answering.join()
            assert (text == "x") is counted[0]

    finish(main())


def test_an_answer_after_the_loop_is_gone_does_not_count() -> None:
    room = Room()
    loop = asyncio.new_event_loop()
    task = loop.create_task(room.person.answer("which?"))
    loop.run_until_complete(until(lambda: room.events != []))
    ask_id = room.asked().ask_id
    task.cancel()
    loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
    loop.close()
    assert room.questions.answer(ask_id, "x") is False


@pytest.mark.parametrize(
    ("text", "answer"),
    [("2", "green"), (" red ", "red"), ("7", "7"), ("neither", "neither"), ("0", "0"), ("²", "²")],
)
def test_a_choice_may_be_named_or_numbered_or_left(text: str, answer: str) -> None:
    async def main() -> str | None:
        room = Room()
        asking = asyncio.create_task(room.person.answer("which?", ["red", "green"]))
        await until(lambda: room.events != [])
        assert room.asked().choices == ("red", "green")
        assert room.questions.answer(room.asked().ask_id, text)
        return await asking

    assert finish(main()) == answer


def test_a_command_waits_for_the_persons_word(calls: Calls, tmp_path: Path) -> None:
    async def main() -> None:
        room = Room()
        terminal = terminal_tool({"PATH": "/usr/bin:/bin"}, ResultBudget(tmp_path / "kept"), calls.sandbox())
        context = calls.context(room.person)
        running = asyncio.ensure_future(terminal.run(context, terminal.check({"command": "echo done"})))
        await until(lambda: room.events != [])
        assert room.asked().subject == "echo done"
        assert room.questions.answer(room.asked().ask_id, "always echo *")
        assert (await running).text.startswith("done\n")
        again = await terminal.run(context, terminal.check({"command": "echo again && echo more"}))
        assert again.text.startswith("again\nmore\n")

    finish(main())


def test_several_asks_of_one_session_are_answered_apart() -> None:
    async def main() -> None:
        room = Room()
        both = [asyncio.create_task(room.person.answer(each)) for each in ("a?", "b?")]
        await until(lambda: len(room.events) == 2)
        first, second = room.questions.open()
        assert room.questions.answer(second.ask_id, "B")
        assert room.questions.answer(first.ask_id, "A")
        assert await asyncio.gather(*both) == ["A", "B"]

    finish(main())
