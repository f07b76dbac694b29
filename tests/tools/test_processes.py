"""Background processes: their output, their end as a message, and that none outlives its agent."""

import asyncio
import os
from pathlib import Path

import pytest

from holdfast.core.errors import ToolFailed
from holdfast.tools.contract import Tool
from holdfast.tools.environment import child_environment
from holdfast.tools.output import ResultBudget
from holdfast.tools.processes import MAX_RUNNING, Processes, process_tools
from tests.tools.call_fixtures import Calls, finish, until
from tests.tools.live_processes import alive, pids

pytestmark = pytest.mark.timeout(60)


class Desk:
    """The processes of one agent, and what was delivered of them."""

    def __init__(
        self, calls: Calls, folder: Path, failure: Exception | None = None, sandbox: str = "off"
    ) -> None:
        self.delivered: list[tuple[str, str]] = []
        self._failure = failure
        budget = ResultBudget(folder / "kept", 2000)
        environment = child_environment({"PATH": os.environ["PATH"]})
        self.processes = Processes(environment, budget, self._deliver, calls.sandbox(sandbox))
        self.tools: dict[str, Tool] = {each.name: each for each in process_tools(self.processes, budget)}

    async def _deliver(self, session_id: str, message: str) -> None:
        self.delivered.append((session_id, message))
        if self._failure is not None:
            raise self._failure


@pytest.fixture
def desk(calls: Calls, tmp_path: Path) -> Desk:
    return Desk(calls, tmp_path)


def test_a_process_goes_on_and_its_end_is_delivered(calls: Calls, desk: Desk) -> None:
    async def main() -> None:
        os.mkfifo(calls.workspace / "gate")
        started = await calls.call(desk.tools["start_process"], command="echo begun; cat gate; exit 4")
        assert started.text == "started as p1"
        assert calls.person.asked[0].kind == "command"
        assert "p1: running: echo begun" in (await calls.call(desk.tools["list_processes"])).text
        await until(lambda: desk.processes.get("p1", "").spool.size > 0)
        assert "p1 running\nbegun\n" in (await calls.call(desk.tools["read_process"], id="p1")).text
        (calls.workspace / "gate").write_text("last words\n")
        await until(lambda: desk.delivered != [])
        ((session_id, message),) = desk.delivered
        assert session_id == "s1"
        assert "p1 (`echo begun; cat gate; exit 4`) has ended: exit code 4" in message
        assert message.endswith("begun\nlast words")
        assert "p1: exit code 4" in (await calls.call(desk.tools["list_processes"])).text
        await desk.processes.close()
        assert len(desk.delivered) == 1

    finish(main())


def test_a_person_is_asked_before_a_process_starts(calls: Calls, desk: Desk) -> None:
    calls.person.yes = False
    assert not calls.run(desk.tools["start_process"], command="touch x").ok
    assert calls.run(desk.tools["list_processes"]).text == "none"


@pytest.mark.slow
def test_stopping_ends_all_it_started_and_is_not_delivered(calls: Calls, desk: Desk) -> None:
    async def main() -> None:
        await calls.call(
            desk.tools["start_process"],
            # It outlives what it waits for, so that nothing but a signal ends it.
            command="trap '' TERM; setsid sh -c 'echo $$ > a.pid; exec sleep 1000' &"
            " echo $$ > b.pid; wait; exec sleep 1000",
        )
        await until(lambda: bool(pids(calls.workspace, 2)))
        assert (await calls.call(desk.tools["stop_process"], id="p1")).text.startswith("p1: ended by SIG")
        assert not any(alive(pid) for pid in pids(calls.workspace, 2))
        assert (await calls.call(desk.tools["stop_process"], id="p1")).text.startswith("p1: ended by SIG")
        await desk.processes.close()
        assert desk.delivered == []

    finish(main())


def test_closing_ends_everything_and_starts_nothing_more(calls: Calls, desk: Desk) -> None:
    async def main() -> None:
        for number in range(3):
            await calls.call(desk.tools["start_process"], command=f"echo $$ > {number}.pid; sleep 1000")
        await until(lambda: bool(pids(calls.workspace, 3)))
        await desk.processes.close()
        assert not any(alive(pid) for pid in pids(calls.workspace, 3))
        assert desk.delivered == []
        with pytest.raises(ToolFailed, match="being closed"):
            await calls.call(desk.tools["start_process"], command="true")
        await desk.processes.close()

    finish(main())


def test_there_is_a_bound_on_how_many_run(calls: Calls, desk: Desk) -> None:
    async def main() -> None:
        for _ in range(MAX_RUNNING):
            await calls.call(desk.tools["start_process"], command="sleep 1000")
        with pytest.raises(ToolFailed, match="stop one first"):
            await calls.call(desk.tools["start_process"], command="sleep 1000")
        await desk.processes.close()

    finish(main())


def test_reading_may_wait_for_the_end(calls: Calls, desk: Desk) -> None:
    async def main() -> None:
        os.mkfifo(calls.workspace / "gate")
        await calls.call(desk.tools["start_process"], command="cat gate")
        reading = asyncio.create_task(calls.call(desk.tools["read_process"], id="p1", wait=20))
        (calls.workspace / "gate").write_text("through\n")
        assert (await reading).text.startswith("p1 exit code 0 after")
        assert "through" in (await reading).text
        await desk.processes.close()

    finish(main())


def test_an_end_that_cannot_be_delivered_is_logged(
    calls: Calls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        desk = Desk(calls, tmp_path, OSError("no inbox"))
        await calls.call(desk.tools["start_process"], command="true")
        await until(lambda: desk.delivered != [])
        await desk.processes.close()

    finish(main())
    assert "process.end_not_delivered" in caplog.text
    assert "no inbox" in caplog.text


def test_a_process_that_printed_nothing_says_so(calls: Calls, desk: Desk) -> None:
    async def main() -> None:
        await calls.call(desk.tools["start_process"], command="true")
        await until(lambda: desk.delivered != [])
        assert desk.delivered[0][1].endswith("It printed nothing.")
        await desk.processes.close()

    finish(main())


def test_the_latest_output_of_a_process_that_floods_can_be_read(calls: Calls, tmp_path: Path) -> None:
    async def main() -> None:
        desk = Desk(calls, tmp_path)
        await calls.call(desk.tools["start_process"], command="seq 1 100000; echo the last")
        await until(lambda: desk.delivered != [])
        read = (await calls.call(desk.tools["read_process"], id="p1")).text
        assert "the last\n" in read
        assert len(read) < 2100
        assert desk.delivered[0][1].endswith("the last")
        first = (await calls.call(desk.tools["read_process"], id="p1", offset=0)).text
        assert first.startswith("p1 exit code 0")
        assert "\n1\n2\n" in first
        await desk.processes.close()

    finish(main())


def test_an_unknown_process_is_named(calls: Calls, desk: Desk) -> None:
    for name in ("read_process", "stop_process"):
        with pytest.raises(ToolFailed, match=r"there is no process '\.\./p1'; there are: none"):
            calls.run(desk.tools[name], id="../p1")
