"""`holdfast web --gateway`: the page and a real Telegram adapter in one process, as a person runs them."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.process import run
from tests.gateway.telegram_platform import TelegramPlatform
from tests.gateway.telegram_server import TOKEN
from tests.web.api.test_command import MAIN, command, folders

SECONDS = 90
NOTE = {"path": "note.txt", "text": "a note"}


async def until(look: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401
    """What `look` finds, once it finds something."""
    async with asyncio.timeout(SECONDS):
        while not (found := await look()):  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.05)  # noqa: TID251 - polls under a deadline
        return found


@pytest.mark.slow
def test_without_an_account_it_says_what_to_do_and_starts_nothing(tmp_path: Path) -> None:
    with command(tmp_path, "--gateway") as process:
        said = process.communicate(timeout=60)[1]
    assert process.returncode == 2
    assert "holdfast gateway setup PLATFORM" in said


@pytest.mark.slow
def test_a_chat_is_answered_and_shown_by_one_process(tmp_path: Path) -> None:
    async def scenario() -> None:
        telegram = TelegramPlatform()
        await telegram.start()
        try:
            await asyncio.to_thread(set_up, tmp_path, telegram.server.url)
            await played(telegram, tmp_path)
        finally:
            await telegram.close()

    run(scenario())
    # A user has files, in a workspace of their own. Without the gateway's policy they would be a guest.
    [note] = tmp_path.glob("**/note.txt")
    assert tmp_path / "project" not in note.parents


def set_up(home: Path, api_url: str) -> None:
    values = ["--set", f"token={TOKEN}", "--set", f"api_url={api_url}"]
    subprocess.run(
        [sys.executable, "-c", MAIN, "gateway", "setup", "telegram", *values],
        env=folders(home),
        check=True,
        capture_output=True,
        timeout=60,
    )


async def played(telegram: TelegramPlatform, home: Path) -> None:
    place = await telegram.direct("Ada")
    script = home / "answers.json"
    script.write_text(json.dumps([{"tool": "write_file", "arguments": NOTE}, "hello"]), encoding="utf-8")
    settings = {"HOLDFAST_WEB_REQUESTS_PER_S": "100000", "HOLDFAST_MODEL_NAME": str(script)}
    with command(home, "--gateway", **settings) as process:
        assert process.stdout is not None
        link = (await asyncio.to_thread(process.stdout.readline)).strip()
        base = link.partition("?")[0]
        async with httpx2.AsyncClient(follow_redirects=True, timeout=20) as browser:
            await browser.get(link)

            async def account() -> dict[str, Any]:
                [found] = (await browser.get(f"{base}api/chats")).json()["accounts"]
                return dict(found)

            async def connected() -> bool:
                return bool((await account())["serving"]["state"] == "connected")

            async def pairings() -> list[dict[str, Any]]:
                return list((await account())["pairings"])

            async def answered() -> bool:
                await account()
                return "hello" in [each.text for each in await telegram.messages(place) if each.by_bot]

            await until(connected)
            await telegram.say(place, "Ada", "let me in")
            [pairing] = await until(pairings)
            path = f"{base}api/chats/pairings/{pairing['code']}/approve"
            assert (await browser.post(path, json={"role": "user"})).status_code == 200
            await telegram.say(place, "Ada", "are you there?")
            await until(answered)
            [session] = (await browser.get(f"{base}api/sessions")).json()["items"]
            assert [(each["platform"], each["person"]) for each in session["chats"]] == [("telegram", "Ada")]
            assert (await account())["platform"] == "telegram"
