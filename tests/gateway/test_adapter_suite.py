"""The contract suite for adapters passes what keeps the contract, and notices each broken promise."""

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.gateway.contract import AdapterTraits, Repeat
from holdfast.testing.adapter_suite import ADAPTER_CHECKS, AdapterCheck, run_adapter_check
from holdfast.testing.memory_chats import MemoryOptions
from holdfast.testing.memory_platform import MemoryPlatform
from holdfast.testing.provider_case import NotOffered
from tests.gateway import broken_adapters

NAMES = {check.name: check for check in ADAPTER_CHECKS}
NOT_TRIED = {"placeholder": {"repeat after a restart", "history"}, "key": set[str](), "look": set[str]()}


def platform_of(repeat: Repeat) -> MemoryPlatform:
    traits = AdapterTraits(
        max_size=300,
        repeat=repeat,
        key_seconds=60.0 if repeat == "key" else 0.0,
        typing_seconds=0.2,
        max_upload=20_000,
        has_history=repeat != "placeholder",
    )
    options = MemoryOptions(
        page=4, redelivers=repeat == "look", tells_not_taken=repeat != "look", slow_seconds=0.01
    )
    return MemoryPlatform(traits, options=options)


@pytest.mark.parametrize("repeat", ["key", "look", "placeholder"])
@pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=str)
def test_the_platform_in_memory_keeps_the_contract(
    check: AdapterCheck, repeat: Repeat, tmp_path: Path
) -> None:
    try:
        run_adapter_check(check, lambda: platform_of(repeat), tmp_path)
    except NotOffered:
        assert check.name in NOT_TRIED[repeat]
    else:
        assert check.name not in NOT_TRIED[repeat]


def test_it_keeps_the_contract_also_where_limits_are_enforced(tmp_path: Path) -> None:
    traits = AdapterTraits(max_size=300, repeat="key", chat_seconds=0.05, account_per_second=1_000)
    for check in (NAMES["send"], NAMES["edit"], NAMES["buttons"]):
        run_adapter_check(
            check, lambda: MemoryPlatform(traits, options=MemoryOptions(enforces_limits=True)), tmp_path
        )


@pytest.mark.parametrize(
    ("adapter", "check", "said"),
    [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in broken_adapters.BROKEN],
)
def test_a_broken_promise_is_noticed(
    adapter: broken_adapters.MakeAdapter, check: str, said: str, tmp_path: Path
) -> None:
    make: Callable[[], MemoryPlatform] = lambda: broken_adapters.BrokenPlatform(adapter)  # noqa: E731
    with pytest.raises(AssertionError, match=said):
        run_adapter_check(NAMES[check], make, tmp_path, patience=0.3)


def test_every_check_is_tried_by_a_broken_adapter() -> None:
    assert {check for _, check, _ in broken_adapters.BROKEN} == set(NAMES)


def test_a_check_that_needs_what_the_platform_lacks_is_not_tried(tmp_path: Path) -> None:
    class Plain(MemoryPlatform):
        thread = None  # type: ignore[assignment]

    with pytest.raises(NotOffered, match="thread"):
        run_adapter_check(NAMES["threads"], Plain, tmp_path)
