"""The contract suite for chat adapters: an author gives a `ChatPlatform` and gets a test for each promise.

    @pytest.mark.parametrize("check", ADAPTER_CHECKS, ids=str)
    def test_the_contract(check: AdapterCheck, tmp_path: Path) -> None:
        run_adapter_check(check, MyPlatform, tmp_path)

`pytest --adapter my_platform:MyPlatform` does the same and prints a report card (`adapter_plugin.py`). The
checks are in `adapter_checks/`.
"""

import asyncio
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path

from holdfast.process import run
from holdfast.testing.adapter_checks import content, receiving, sending
from holdfast.testing.adapter_harness import AdapterCheck, AdapterHarness
from holdfast.testing.chat_platform import ChatPlatform

__all__ = [
    "ADAPTER_CHECKS",
    "PATIENCE",
    "AdapterCheck",
    "MakePlatform",
    "gaps_of",
    "load_platform",
    "run_adapter_check",
]

ADAPTER_CHECKS: tuple[AdapterCheck, ...] = (*receiving.CHECKS, *sending.CHECKS, *content.CHECKS)
PATIENCE = 20.0
"""For how many seconds a check waits for what must come."""
WHOLE = 6
"""A check as a whole has so many times the patience."""
MakePlatform = Callable[[], ChatPlatform]


def run_adapter_check(
    check: AdapterCheck, make_platform: MakePlatform, folder: Path, patience: float = PATIENCE
) -> None:
    """Try one check on a new platform: `AssertionError` when a promise is broken.

    `NotOffered` when the platform lacks what the check needs.
    """
    run(_try(check, make_platform, folder, patience))


async def _try(check: AdapterCheck, make_platform: MakePlatform, folder: Path, patience: float) -> None:
    platform = make_platform()
    await platform.start()
    try:
        harness = AdapterHarness(platform, folder, patience)
        try:
            async with asyncio.timeout(WHOLE * patience):
                await check.run(harness)
        except TimeoutError as late:
            raise AssertionError(f"the check did not end in {WHOLE * patience:g} s") from late
        finally:
            await harness.close()
    finally:
        await platform.close()


def load_platform(spec: str) -> MakePlatform:
    """Load `--adapter module:Name`: a class or function that makes a `ChatPlatform`."""
    module, colon, name = spec.partition(":")
    if not colon:
        raise ValueError(f"--adapter takes module:Name, not {spec!r}")
    found: MakePlatform = getattr(importlib.import_module(module), name)
    return found


def gaps_of(make_platform: MakePlatform) -> Mapping[str, str]:
    """The checks that the platform's `gaps` say can't be passed, and why."""
    found: Mapping[str, str] = getattr(make_platform, "gaps", {})
    return found
