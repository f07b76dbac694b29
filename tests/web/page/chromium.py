"""Finds a Chromium for the tests: the one on the path, else the system's packages, else the driver's own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, Error, Playwright, sync_playwright

WITH_WINDOWS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
NAMES = ("chromium-headless-shell", *WITH_WINDOWS)
"""The headless shell is the same engine without windows, and takes less than half of the processor's time."""
NEEDED = "REQUIRE_BROWSER"
FLAGS = ["--no-sandbox", "--disable-dev-shm-usage"]


@contextmanager
def a_browser(*flags: str) -> Iterator[Browser]:
    """A running Chromium; skips when there is none to be had, and fails where that is not allowed."""
    with sync_playwright() as driver:
        browser, tried = _launched(driver, [*FLAGS, *flags])
        if browser is None:
            reason = f"no Chromium can be had here: {'; '.join(tried)}"
            if os.environ.get(NEEDED):
                pytest.fail(f"{reason} ({NEEDED} is set, so this is a failure)")
            pytest.skip(reason)
        yield browser
        browser.close()


@contextmanager
def with_windows(other: Browser) -> Iterator[Browser]:
    """A Chromium that can show windows and notifications, run by the same driver as another browser."""
    browser = other.browser_type.launch(executable_path=path_of_one_with_windows(), args=FLAGS)
    yield browser
    browser.close()


def path_of_one_with_windows() -> str:
    """Where there is a whole Chromium; skips when there is none."""
    try:
        return _on_path(WITH_WINDOWS)
    except LookupError as missing:
        if os.environ.get(NEEDED):
            raise
        pytest.skip(str(missing))


def _launched(driver: Playwright, flags: list[str]) -> tuple[Browser | None, list[str]]:
    tried: list[str] = []
    for name, path in (
        ("the path", _on_path),
        ("the system's packages", _installed),
        ("the driver", _downloaded),
    ):
        try:
            found = path()
            return driver.chromium.launch(executable_path=found, args=flags), tried
        except (Error, LookupError, OSError, subprocess.SubprocessError) as cause:
            tried.append(f"{name}: {str(cause).strip().splitlines()[0]}")
    return None, tried


def _on_path(names: Sequence[str] = NAMES) -> str:
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise LookupError(f"none of {', '.join(names)} is there")
    return found


def _installed() -> str:
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise LookupError("they may not be installed by this user")
    # Another worker of this run may be installing it: the package manager waits for its own lock.
    subprocess.run(
        ["apt-get", "install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=240", "chromium"],
        check=True,
        capture_output=True,
        timeout=280,
    )
    return _on_path()


def _downloaded() -> None:
    subprocess.run(
        [sys.executable, "-m", "playwright", "install", "chromium"],
        check=True,
        capture_output=True,
        timeout=240,
    )
