"""Remote MCP servers that want a sign-in: with OAuth, over real HTTP, by the SDK on both sides."""

import asyncio
import json
import stat
from pathlib import Path

import httpx2
import pytest

from holdfast.cli.mcp_login import sign_in
from holdfast.core.errors import InvalidInput
from holdfast.core.settings import McpServerSettings
from holdfast.tools.mcp import McpServers
from holdfast.tools.mcp_sign_in import SignIns
from tests.tools.call_fixtures import Calls, finish
from tests.tools.oauth_server import Accounts, protected_server


class Person:
    """Opens in a browser what the terminal shows."""

    def __init__(self) -> None:
        self.pages: list[asyncio.Task[str]] = []

    def show(self, text: str) -> None:
        self.pages.append(asyncio.ensure_future(self._open(text.rsplit(maxsplit=1)[-1])))

    async def _open(self, address: str) -> str:
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            return (await browser.get(address)).text


async def called(calls: Calls, server: McpServerSettings, folder: Path) -> str:
    """What the tool of the server says now, or the problem."""
    servers = McpServers([server], calls.workspace, sign_ins=SignIns(folder))
    try:
        problems = await servers.open(calls.context().off_loop)
        if problems:
            return "; ".join(problems)
        (double,) = servers.tools
        return (await calls.call(double, number=21)).text
    finally:
        await servers.close()


def test_a_person_signs_in_once_and_the_tokens_are_kept_renewed_and_forgotten(
    calls: Calls, tmp_path: Path
) -> None:
    folder, accounts, person = tmp_path / "sign-ins", Accounts(), Person()

    async def main() -> None:
        async with protected_server(accounts) as url:
            server = McpServerSettings(name="notes", url=url, trusted=True)
            assert "`holdfast mcp login notes`" in await called(calls, server, folder)
            assert await sign_in(server, folder, person.show) == 1
            assert ["You are signed in" in await page for page in person.pages] == [True]
            file = folder / "notes.json"
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert await called(calls, server, folder) == "42"
            assert len(person.pages) == 1

            # After a restart a token that ran out is renewed, and nobody is asked.
            kept = json.loads(file.read_text())
            file.write_text(json.dumps({**kept, "expires": 1.0}))
            assert await called(calls, server, folder) == "42"
            assert accounts.renewed == 1
            assert json.loads(file.read_text())["tokens"] != kept["tokens"]

            # What the server knows no more is said in words; the turn waits for nobody.
            accounts.forget_all()
            assert "`holdfast mcp login notes`" in await called(calls, server, folder)
            assert SignIns(folder).forget("notes")
            assert not SignIns(folder).forget("notes")

    finish(main())


def test_a_sign_in_that_is_refused_keeps_the_one_that_was_there(tmp_path: Path) -> None:
    folder, accounts = tmp_path / "sign-ins", Accounts()

    async def main() -> None:
        async with protected_server(accounts) as url:
            server = McpServerSettings(name="notes", url=url)
            await sign_in(server, folder, Person().show)
            before = (folder / "notes.json").read_text()

            class Refusing(Person):
                async def _open(self, address: str) -> str:
                    back = httpx2.URL(address).params["redirect_uri"]
                    async with httpx2.AsyncClient() as browser:
                        return (await browser.get(back, params={"error": "access_denied"})).text

            person = Refusing()
            with pytest.raises(InvalidInput, match="access_denied"):
                await sign_in(server, folder, person.show)
            assert "access_denied" in await person.pages[0]
            assert (folder / "notes.json").read_text() == before

    finish(main())


def test_there_is_nothing_to_sign_in_to_at_a_command(tmp_path: Path) -> None:
    server = McpServerSettings(name="local", command="serve")
    with pytest.raises(InvalidInput, match="nothing to sign in to"):
        finish(sign_in(server, tmp_path, print))
