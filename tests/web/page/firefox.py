"""`Firefox`: a headless Firefox that is driven by WebDriver BiDi, the protocol that it speaks by itself."""

import asyncio
import json
import re
import shutil
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Self, cast

import aiohttp

NAMES = ("firefox-esr", "firefox")
PATIENCE = 90.0
ONE_LOOK = 10.0
LOOK_AGAIN = 0.05
LISTENS = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
ENTER = "\ue006"
CONTROL = "\ue009"
STANDS_STILL = """document.getAnimations().every(
  (each) => !(each instanceof CSSTransition) || each.playState !== 'running'
)"""
DARK = 0
"""What the machine's colours are said to be."""


def installed() -> str | None:
    """The path of a Firefox, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Firefox:
    """A running browser. Each tab is another person's: it shares no cookie and no storage with the others.

    The loop runs only inside a call, so that a test may run one of its own in between.
    """

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._profile = folder / "profile"
        self.downloads = folder / "downloads"
        self._ids = count(1)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._runner.__enter__()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._end())
        self._runner.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever JSON holds
        return self._runner.run(work)

    async def _start(self) -> None:
        self._profile.mkdir(parents=True)
        self.downloads.mkdir()
        settings = {
            "browser.download.folderList": 2,
            "browser.download.dir": str(self.downloads),
            "browser.download.useDownloadDir": True,
            "layout.css.prefers-color-scheme.content-override": DARK,
        }
        lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in settings.items()]
        (self._profile / "user.js").write_text("".join(lines))
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
        await self._answer("session.new", {"capabilities": {}})

    async def _end(self) -> None:
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

    def downloaded(self) -> Path:
        """The first file that was saved, once it is whole."""

        async def saved() -> Path:
            async with asyncio.timeout(PATIENCE):
                while True:
                    found = [each for each in self.downloads.iterdir() if each.suffix != ".part"]
                    # A file is made empty, and is filled under another name until it is whole.
                    if found and found[0].stat().st_size:
                        return found[0]
                    await asyncio.sleep(LOOK_AGAIN)  # noqa: TID251 - polls under a deadline

        return cast(Path, self._run(saved()))

    async def _answer(self, method: str, parameters: dict[str, Any]) -> Any:  # noqa: ANN401 - as the protocol has it
        number = next(self._ids)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = json.loads(await self._socket.receive_str())
                if answer.get("id") == number:
                    assert answer["type"] == "success", answer
                    return answer["result"]

    def command(self, method: str, parameters: dict[str, Any], patience: float = PATIENCE) -> Any:  # noqa: ANN401 - as the protocol has it
        """One call of the protocol; `TimeoutError` when the answer takes too long."""
        return self._run(asyncio.wait_for(self._answer(method, parameters), patience))

    def new_tab(self) -> "FirefoxTab":
        person = self.command("browser.createUserContext", {})["userContext"]
        made = self.command("browsingContext.create", {"type": "tab", "userContext": person})
        return FirefoxTab(self, person, made["context"])


class FirefoxTab:
    """A tab. What a person sees is asked for in JavaScript; keys and clicks are real ones.

    A script that names an element is one expression.
    """

    def __init__(self, browser: Firefox, person: str, window: str) -> None:
        self._browser = browser
        self._person = person
        self._window = window

    def close(self) -> None:
        """With all that the person's browser has kept."""
        self._browser.command("browser.removeUserContext", {"userContext": self._person})

    def goto(self, url: str) -> None:
        self._here("browsingContext.navigate", url=url, wait="complete")

    def reload(self) -> None:
        self._here("browsingContext.reload", wait="complete")

    def resize(self, width: int, height: int) -> None:
        self._here("browsingContext.setViewport", viewport={"width": width, "height": height})

    def _here(self, method: str, **parameters: object) -> Any:  # noqa: ANN401 - as the protocol has it
        return self._browser.command(method, {"context": self._window, **parameters})

    def run(self, script: str, patience: float = PATIENCE) -> Any:  # noqa: ANN401 - whatever JSON holds
        """The value of an expression in the page."""
        found = self._evaluated(f"(async () => JSON.stringify((await ({script})) ?? null))()", patience)
        return json.loads(found["value"])

    def _evaluated(self, expression: str, patience: float = PATIENCE) -> dict[str, Any]:
        asked = {"expression": expression, "target": {"context": self._window}, "awaitPromise": True}
        answer = self._browser.command("script.evaluate", asked, patience)
        assert answer["type"] == "success", answer
        found: dict[str, Any] = answer["result"]
        return found

    def until(self, script: str) -> None:
        """Wait until an expression in the page is true, also while the page is loaded anew."""
        again = "left ? setTimeout(look, 50, left - 1) : ok(false)"
        look = f"const look = (left) => (({script}) ? ok(true) : {again});"
        asked = f"new Promise((ok) => {{ {look} look(10); }})"
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            # A document that is about to be replaced has no answer, or none in time.
            with suppress(AssertionError, TimeoutError):
                if self.run(asked, ONE_LOOK):
                    return
        raise AssertionError(f"this did not become true: {script}\n{self.run('document.body.innerText')}")

    def _element(self, script: str) -> dict[str, str]:
        self.until(script)
        return {"sharedId": self._evaluated(script)["sharedId"]}

    def click(self, script: str) -> None:
        """Click on the middle of an element once it is there."""
        self.until(f"({script})?.checkVisibility() && {STANDS_STILL}")
        self.run(f"({script}).scrollIntoView({{ block: 'nearest' }})")
        origin = {"type": "element", "element": self._element(script)}
        move = {"type": "pointerMove", "x": 0, "y": 0, "origin": origin}
        pressed = [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        self._act({"type": "pointer", "id": "mouse", "actions": [move, *pressed]})

    def choose_files(self, script: str, files: Sequence[Path]) -> None:
        """What a person chooses in the browser's own dialog, which is not opened."""
        self._here("input.setFiles", element=self._element(script), files=[str(each) for each in files])

    def keys(self, text: str) -> None:
        """Type; each character is a key."""
        self._type([{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")])

    def chord(self, key: str) -> None:
        """A key with Control."""
        pressed = (("keyDown", CONTROL), ("keyDown", key), ("keyUp", key), ("keyUp", CONTROL))
        self._type([{"type": kind, "value": value} for kind, value in pressed])

    def _type(self, strokes: list[dict[str, str]]) -> None:
        self._act({"type": "key", "id": "keyboard", "actions": strokes})

    def _act(self, source: dict[str, Any]) -> None:
        self._here("input.performActions", actions=[source])
