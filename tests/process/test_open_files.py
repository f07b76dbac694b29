"""What a process derives from its limit of open files, and the limit of the programs that it starts."""

import json
import resource
import subprocess
import sys

import pytest

from tests.process.child_process import StartChild

PROGRAM = """
import resource, subprocess, threading
from holdfast.process import raise_open_files_limit, with_original_limit

raise_open_files_limit()
raise_open_files_limit()
assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 300

def start():
    subprocess.run(with_original_limit(["sh", "-c", "ulimit -Sn"]))

start()
thread = threading.Thread(target=start)
thread.start()
thread.join()
"""
ROOM = """
import json, resource
resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}))
from holdfast.process import reserve
from holdfast.process.listen_socket import room_for_streams
print(json.dumps([reserve(), room_for_streams(1_000_000), room_for_streams(7)]))
"""


def test_programs_get_the_original_limit_whichever_thread_starts_them() -> None:
    limits = f"ulimit -Sn 128 && ulimit -Hn 300 && exec {sys.executable} -c '{PROGRAM}'"
    told = subprocess.run(["sh", "-c", limits], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["128", "128"]


@pytest.mark.clause("X5")
@pytest.mark.parametrize("limit", [64, 128, 256, 1024, 4096])
def test_event_streams_leave_room_for_other_clients_and_the_reserve(
    limit: int, start_child: StartChild
) -> None:
    limit = min(limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    code, said, complaints = start_child(ROOM.format(limit=limit)).end()
    assert (code, complaints) == (0, "")
    reserved, most, few = json.loads(said)
    free = limit - reserved
    assert 1 <= most <= max(1, free * 0.8)
    assert most >= free // 2
    assert few == min(7, most)
