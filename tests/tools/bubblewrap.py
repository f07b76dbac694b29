"""A bubblewrap for the tests: the system's, else installed as its package where that is allowed."""

import os
import shutil
import subprocess

import pytest

from holdfast.tools.sandbox import SandboxOptions
from holdfast.tools.sandbox_choice import SandboxMissing, find_sandbox

NEEDED = "REQUIRE_SANDBOX"


def need_bubblewrap() -> None:
    """Skip when no bubblewrap works here, and fail where that is not allowed."""
    problem = _problem()
    if problem and os.geteuid() == 0 and shutil.which("apt-get"):
        words = ["apt-get", "install", "-y", "--no-install-recommends", "bubblewrap"]
        subprocess.run(words, check=False, capture_output=True, timeout=240)
        problem = _problem()
    if problem and os.environ.get(NEEDED):
        pytest.fail(f"{problem} ({NEEDED} is set, so this is a failure)")
    if problem:
        pytest.skip(problem)


def _problem() -> str:
    try:
        sandbox, _ = find_sandbox("bubblewrap", "", SandboxOptions())
    except SandboxMissing as cause:
        return str(cause)
    sandbox.close()
    return ""
