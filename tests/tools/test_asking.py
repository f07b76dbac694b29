"""A person's word settles an ask exactly once, and silence means no."""

import asyncio
import threading
from typing import Any

import pytest

from holdfast.core.events import ApprovalAsked, AskClosed, Event, QuestionAsked
from holdfast.tools.approval import ApprovalPolicy
from holdfast.tools.asking import AskingPerson, CallIds, OpenQuestions
from holdfast.tools.contract import ApprovalRequest
from tests.tools.calls import LONG, finish, until

MAKE = ApprovalRequest("make test", "command")


class Room:
    """A session's questions and the events that its surface sees."""

    def __init__(self, policy: ApprovalPolicy | None = None, seconds: float = LONG) -> None:
        self.questions = OpenQuestions(seconds)
        self.events: list[Event] = []
        self.person = AskingPerson(
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


def test_a_destructive_command_is_asked_again_though_always_was_said() -> None:
    async def main() -> None:
        room = Room()
        request = ApprovalRequest("rm -rf build", "command")
        assert await room.ask(request, "always")
        assert room.asked().destructive
        assert "deletes" in room.asked().reason
        assert not await room.ask(request, "no")

    finish(main())


def test_what_a_policy_settles_is_not_asked() -> None:
    room = Room(ApprovalPolicy.of("always-refuse", ["command:make *"]))
    assert finish(room.person.approve(MAKE))
    assert not finish(room.person.approve(ApprovalRequest("ls", "command")))
    assert room.events == []


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
