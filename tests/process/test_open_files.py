"""What a program that raised its limit of open files gives to the programs that it starts."""

import subprocess
import sys

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


def test_programs_get_the_original_limit_whichever_thread_starts_them() -> None:
    limits = f"ulimit -Sn 128 && ulimit -Hn 300 && exec {sys.executable} -c '{PROGRAM}'"
    told = subprocess.run(["sh", "-c", limits], capture_output=True, text=True, check=True).stdout
    assert told.split() == ["128", "128"]
