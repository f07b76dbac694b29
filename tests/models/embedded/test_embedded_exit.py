"""The program ends at once whatever the runtime is doing, and takes the runtime with it."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from holdfast.models.embedded import open_embedded
from tests.models.embedded.gguf_fixtures import answer, asking, closed, is_running, until, workers
from tests.process.child_process import Child, StartChild

pytestmark = pytest.mark.slow

PROMPTLY = 3.0
SPEAKING = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.models.embedded.gguf_fixtures import MOST, asking, endless_model, workers

model = endless_model(Path({weights!r}))

async def speak():
    count = 0
    async for _ in model.stream(asking("Tell me a story.", most=MOST)):
        count += 1
        if count == 3:
            print(workers()[0], flush=True)
            {at_the_third_piece}

asyncio.run(speak())
"""
ANSWERING = """
import asyncio
from pathlib import Path
from holdfast.core.errors import ModelFailure
from holdfast.models.embedded import open_embedded
from tests.models.embedded.gguf_fixtures import answer, asking, workers

model = open_embedded(Path("/nowhere"), weights=Path({file!r}))
try:
    asyncio.run(answer(model, asking("Hello!", most=5)))
    print("answered", *workers(), sep="\\n")
except ModelFailure:
    print("failed")
"""
HANDLING = """
import asyncio, os, signal
from pathlib import Path
from tests.models.embedded.gguf_fixtures import answer, asking, endless_model, workers

model = endless_model(Path({weights!r}))
signal.signal(signal.SIGINT, lambda *_: print("heard", flush=True))
asyncio.run(answer(model, asking("Hello!", most=2)))
before = workers()
os.killpg(0, signal.SIGINT)
asyncio.run(answer(model, asking("Hello!", most=60)))
print("the same runtime" if workers() == before else "another", flush=True)
"""
LOADING = """
import asyncio, os, signal
from pathlib import Path
from holdfast.models.embedded import open_embedded
from tests.models.embedded.gguf_fixtures import until, workers

model = open_embedded(Path("/nowhere"), weights=Path({weights!r}))

async def load():
    loading = asyncio.ensure_future(model.warm_up())
    await until(lambda: bool(workers()))
    os.kill(workers()[0], signal.SIGSTOP)
    print(workers()[0], flush=True)

asyncio.run(load())
"""


@pytest.fixture
def start() -> Iterator[StartChild]:
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(closing(Child(script)))


def ended_within(child: Child) -> tuple[float, int, str]:
    began = time.monotonic()
    code, _, err = child.end()
    return time.monotonic() - began, code, err


@pytest.mark.clause("X1")
@pytest.mark.parametrize("leaving", ["return", "sys.exit(7)"])
def test_the_program_exits_in_mid_answer(start: StartChild, weights: Path, leaving: str) -> None:
    child = start(SPEAKING.format(weights=str(weights), at_the_third_piece=leaving))
    worker = int(child.line())
    took, code, err = ended_within(child)
    assert took < PROMPTLY
    assert code == (7 if "7" in leaving else 0)
    assert err == ""
    asyncio.run(until(lambda: not is_running(worker)))


@pytest.mark.clause("X4")
def test_ctrl_c_in_mid_answer_ends_the_program(start: StartChild, weights: Path) -> None:
    child = start(SPEAKING.format(weights=str(weights), at_the_third_piece="pass"))
    worker = int(child.line())
    child.send(signal.SIGINT)
    took, code, err = ended_within(child)
    assert took < PROMPTLY
    assert code == -signal.SIGINT
    assert "KeyboardInterrupt" in err
    asyncio.run(until(lambda: not is_running(worker)))


def test_ctrl_c_is_the_programs_to_handle_and_leaves_the_runtime_alone(
    start: StartChild, weights: Path
) -> None:
    child = start(HANDLING.format(weights=str(weights)))
    assert [child.line(), child.line()] == ["heard", "the same runtime"]
    assert child.end()[0] == 0


def test_a_runtime_with_nothing_to_do_ends_with_its_program(start: StartChild, weights: Path) -> None:
    child = start(ANSWERING.format(file=str(weights)))
    assert child.line() == "answered"
    worker = int(child.line())
    assert child.end()[0] == 0
    asyncio.run(until(lambda: not is_running(worker)))


def test_a_program_that_is_killed_takes_the_runtime_with_it(start: StartChild, weights: Path) -> None:
    child = start(SPEAKING.format(weights=str(weights), at_the_third_piece="pass"))
    worker = int(child.line())
    child.send(signal.SIGKILL)
    child.end()
    asyncio.run(until(lambda: not is_running(worker)))


@pytest.mark.clause("X1")
def test_the_program_exits_while_a_wedged_runtime_is_loading(start: StartChild, weights: Path) -> None:
    child = start(LOADING.format(weights=str(weights)))
    worker = int(child.line())
    try:
        took, code, err = ended_within(child)
        assert took < PROMPTLY
        assert (code, err) == (0, "")
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGCONT)
    asyncio.run(until(lambda: not is_running(worker)))


def test_nothing_of_the_runtimes_noise_reaches_the_terminal(
    start: StartChild, weights: Path, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(weights.read_bytes()[:3_000_000])
    for file in (weights, damaged):
        child = start(ANSWERING.format(file=str(file)))
        code, out, err = child.end()
        assert (code, out.split()[0], err) == (0, "failed" if file is damaged else "answered", "")


def test_the_runtime_listens_nowhere(weights: Path, tmp_path: Path) -> None:
    model = open_embedded(tmp_path, weights=weights)
    before = set(workers())
    asyncio.run(answer(model, asking("Hello!", most=2)))
    [worker] = set(workers()) - before
    sockets = {
        str(link.readlink()).removeprefix("socket:[").removesuffix("]")
        for link in Path(f"/proc/{worker}/fd").iterdir()
        if str(link.readlink()).startswith("socket:")
    }
    tcp = {
        line.split()[9]
        for table in ("tcp", "tcp6", "udp", "udp6")
        for line in Path(f"/proc/{worker}/net/{table}").read_text(encoding="utf-8").splitlines()[1:]
    }
    named = [
        line.split()[7]
        for line in Path(f"/proc/{worker}/net/unix").read_text(encoding="utf-8").splitlines()[1:]
        if line.split()[6] in sockets and len(line.split()) > 7
    ]
    assert sockets, "the runtime holds a socket, and this test looks at it"
    assert not sockets & tcp
    assert not [name for name in named if Path(name).exists()]
    closed(model)
