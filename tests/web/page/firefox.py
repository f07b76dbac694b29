"""`Firefox`: a headless Firefox that is driven by WebDriver BiDi, the protocol that it speaks by itself."""

import asyncio
import json
import re
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Self

import aiohttp

NAMES = ("firefox-esr", "firefox")
PATIENCE = 90.0
ONE_LOOK = 10.0
LISTENS = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
ENTER = "\ue006"
CONTROL = "\ue009"


def installed() -> str | None:
    """The path of a Firefox, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Firefox:
    """One window. What a person sees is asked for in JavaScript; what a person types are real key strokes."""

    def __init__(self, program: str, profile: Path) -> None:
        self._program = program
        self._profile = profile
        self._ids = count(1)

    async def __aenter__(self) -> Self:
        self._profile.mkdir(parents=True, exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            *("--headless", "--no-remote", "--profile", str(self._profile)),
            *("--remote-debugging-port", "0", "about:blank"),
            env={"HOME": str(self._profile), "PATH": "/usr/bin:/bin", "MOZ_DISABLE_CONTENT_SANDBOX": "1"},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        address = await asyncio.wait_for(self._address(), PATIENCE)
        self._http = aiohttp.ClientSession()
        self._socket = await self._http.ws_connect(f"{address}/session", max_msg_size=0)
        await self.command("session.new", {"capabilities": {}})
        tree = await self.command("browsingContext.getTree", {})
        self._window = tree["contexts"][0]["context"]
        return self

    async def __aexit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._socket.close()
        await self._http.close()
        # Its children write to the same pipe, and outlive it by a moment.
        await self._process.communicate()

    async def _address(self) -> str:
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            if found := LISTENS.search(line):
                return found[1].decode()
        raise AssertionError("this Firefox ended before it listened")

    async def command(self, method: str, parameters: dict[str, Any]) -> Any:  # noqa: ANN401 - as the protocol has it
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = json.loads(await self._socket.receive_str())
                if answer.get("id") == number:
                    assert answer["type"] == "success", answer
                    return answer["result"]

    async def goto(self, url: str) -> None:
        where = {"context": self._window, "url": url, "wait": "complete"}
        await self.command("browsingContext.navigate", where)

    async def reload(self) -> None:
        await self.command("browsingContext.reload", {"context": self._window, "wait": "complete"})

    async def run(self, script: str) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The value of an expression in the page."""
        asked = {
            "expression": f"(async () => JSON.stringify((await ({script})) ?? null))()",
            "target": {"context": self._window},
            "awaitPromise": True,
        }
        answer = await self.command("script.evaluate", asked)
        assert answer["type"] == "success", answer
        return json.loads(answer["result"]["value"])

    async def until(self, script: str) -> None:
        """Wait until an expression in the page is true, also while the page is loaded anew."""
        again = "left ? setTimeout(look, 50, left - 1) : ok(false)"
        look = f"const look = (left) => (({script}) ? ok(true) : {again});"
        asked = f"new Promise((ok) => {{ {look} look(10); }})"
        async with asyncio.timeout(PATIENCE):
            while True:
                with suppress(AssertionError, TimeoutError):
                    async with asyncio.timeout(ONE_LOOK):
                        if await self.run(asked):
                            return

    async def click(self, script: str) -> None:
        """Click on an element once it is there."""
        await self.until(script)
        await self.run(f"({script}).click()")

    async def keys(self, text: str) -> None:
        """Type; each character is a key."""
        strokes = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        await self._act(strokes)

    async def chord(self, key: str) -> None:
        """A key with Control."""
        pressed = (("keyDown", CONTROL), ("keyDown", key), ("keyUp", key), ("keyUp", CONTROL))
        await self._act([{"type": kind, "value": value} for kind, value in pressed])

    async def _act(self, strokes: list[dict[str, str]]) -> None:
        actions = [{"type": "key", "id": "keyboard", "actions": strokes}]
        await self.command("input.performActions", {"context": self._window, "actions": actions})
