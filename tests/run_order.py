"""Tests that take long run first, dealt out to the workers: a run does not end with one of them alone."""

from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")

LONG = (
    "tests/bench/",
    "tests/cli/test_hanging_plugins.py",
    "tests/gateway/test_gateway_kills.py",
    "tests/host/test_shutdown.py",
    "tests/host/test_torture.py",
    "tests/memory/test_forgetting_kills.py",
    "tests/memory/test_kill.py",
    "tests/models/embedded/",
    "tests/providers/contract_suite/",
    "tests/providers/hermes/test_hermes_plugins.py",
    "tests/sessions/test_processes.py",
    "tests/test_scopes_apart.py",
    "tests/web/api/test_command_with_chats.py",
    "tests/web/api/test_description.py",
    "tests/web/page/test_firefox.py",
)
"""Where the tests are that `make test PYTEST_ARGS=--durations=25` lists."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each worker is given an equal part of the list at first, and takes from the others' ends when done."""
    workers = getattr(config, "workerinput", {}).get("workercount", 1)
    is_long = [each.nodeid.startswith(LONG) and "slow" in each.keywords for each in items]
    first = [each for each, long in zip(items, is_long, strict=True) if long]
    rest = [each for each, long in zip(items, is_long, strict=True) if not long]
    items[:] = dealt_out(first, rest, workers)


def dealt_out(first: Sequence[T], rest: Sequence[T], parts: int) -> list[T]:
    """All of them in equal parts, each of which begins with its share of the first ones."""
    size = -(-(len(first) + len(rest)) // parts)
    ordered: list[T] = []
    for number in range(parts):
        ordered += first[number::parts]
        left = max(0, (number + 1) * size - len(ordered))
        ordered += rest[:left]
        rest = rest[left:]
    return ordered
