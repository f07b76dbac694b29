"""Install the built wheel as a person does, and use it: `make try-wheel`.

On each supported Python that this machine has: pip in a fresh environment, then with every extra; on the
first one also `uv tool install` and pipx. Then commands, a chat on a terminal, the page in Chromium, an exit,
in an empty folder outside the checkout. With arguments, only these Pythons: `make try-wheel TRY_ARGS=3.12`.
Root may try it as an ordinary user, who must be able to read the Pythons: `TRY_ARGS="3.11 --user alex"`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pexpect

from tests.web.page.chromium import a_browser
from tools.bootstrap import ROOT, ensure_uv, uv_environment
from tools.pythons import find_pythons

PATIENCE = 120
COMMANDS: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("--version",), 0, "holdfast "),
    (("--help",), 0, "Commands"),
    (("sessions",), 0, "There are no conversations yet."),
    (("config", "path"), 0, "settings.toml"),
    (("doctor",), 0, "settings"),
    (("ask", "hello"), 0, "Here I am."),
    (("sessions", "search", "hello"), 0, "hello"),
    (("check",), 0, "is sound"),
)
EXTRA = re.compile(r"^Provides-Extra: (\S+)$", re.MULTILINE)


class Person:
    """A home of its own, in which nothing was ever started, and the installed command."""

    def __init__(self, folder: Path, command: Path, user: str = "") -> None:
        self.folder = folder
        # runuser keeps the variables, but for the home.
        other = ("runuser", "-u", user, "--", "env", f"HOME={folder}") if user else ()
        self.command = [*other, str(command)]
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        (folder / "script.json").write_text('["Here I am.", "Here I am."]', encoding="utf-8")
        if user:
            for each in (folder, self.project):
                shutil.chown(each, user, user)

    def environment(self, **more: str) -> dict[str, str]:
        """The machine's variables without those that reach a model, a checkout or another home."""
        dropped = ("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "OPENROUTER_", "XDG_", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}  # noqa: TID251
        return {**kept, "HOME": str(self.folder), "TERM": "xterm-256color", **more}

    def scripted(self) -> dict[str, str]:
        """With a model that plays a script."""
        script = str(self.folder / "script.json")
        return self.environment(HOLDFAST_MODEL_PROVIDER="scripted", HOLDFAST_MODEL_NAME=script)


def commands_work(person: Person) -> None:
    """Run each command to its end."""
    for arguments, code, shown in COMMANDS:
        done = subprocess.run(
            [*person.command, *arguments],
            env=person.scripted(),
            cwd=person.project,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode != code or shown not in done.stdout:
            raise AssertionError(
                f"holdfast {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}"
            )


def chat_works(person: Person) -> None:
    """Talk on a terminal: first without a model, where one screen says what to do, then with one."""
    alone = person.environment(HOLDFAST_MODEL_PROVIDER="openai")
    program, *arguments = person.command
    first = pexpect.spawn(program, arguments, env=alone, cwd=str(person.project), timeout=PATIENCE)
    first.expect("There is no language model yet")
    first.expect("OPENAI_API_KEY is not set")
    first.expect("q >")
    first.sendline("q")
    first.expect(pexpect.EOF)
    chat = pexpect.spawn(program, arguments, env=person.scripted(), cwd=str(person.project), timeout=PATIENCE)
    chat.expect("Holdfast with")
    chat.send("hello\r")
    chat.expect("Here I am")
    chat.sendeof()
    chat.expect("leaving")
    chat.expect(pexpect.EOF)
    chat.close()
    if chat.exitstatus != 0:
        raise AssertionError(f"the chat ended with {chat.exitstatus}")


def page_works(person: Person) -> None:
    """Fetch the state of the server, talk on the page in a browser; then stop the server."""
    command = [*person.command, "web", "--port", "0"]
    with subprocess.Popen(
        command,
        env=person.scripted(),
        cwd=person.project,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None  # noqa: S101 - it was asked for
        link = server.stdout.readline().strip()
        base, _, token = link.partition("?token=")
        for path in ("healthz", "readyz", "api/status"):
            asked = urllib.request.Request(f"{base}{path}", headers={"Authorization": f"Bearer {token}"})  # noqa: S310
            with urllib.request.urlopen(asked, timeout=PATIENCE) as answer:  # noqa: S310 - loopback
                answer.read()
        with a_browser() as browser:
            page = browser.new_page()
            wrong: list[str] = []
            page.on("pageerror", lambda error: wrong.append(str(error)))
            page.goto(link)
            page.get_by_role("textbox", name="Message", exact=True).fill("hello")
            page.keyboard.press("Enter")
            page.get_by_text("Here I am.").last.wait_for(timeout=PATIENCE * 1000)
            if wrong:
                raise AssertionError(f"the page has errors: {wrong}")
        server.terminate()
        server.communicate(timeout=PATIENCE)


CHECKS: Sequence[Callable[[Person], None]] = (commands_work, chat_works, page_works)


def build_wheel(into: Path) -> Path:
    """Build it from the checkout."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return next(into.iterdir())


def extras_of(wheel: Path) -> list[str]:
    """Every extra that its metadata names."""
    with zipfile.ZipFile(wheel) as opened:
        metadata = next(name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return EXTRA.findall(opened.read(metadata).decode())


def with_pip(python: str, wheel: Path, folder: Path, extras: Sequence[str] = ()) -> Path:
    """The command, installed by pip into a fresh environment."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    wanted = f"{wheel}[{','.join(extras)}]" if extras else str(wheel)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, wanted], check=True, stderr=subprocess.DEVNULL)
    return folder / "bin" / "holdfast"


def with_uv_tool(python: str, wheel: Path, folder: Path) -> Path:
    """The command, installed by `uv tool install`."""
    own = {"UV_TOOL_DIR": str(folder / "tools"), "UV_TOOL_BIN_DIR": str(folder / "bin")}
    command = [str(ensure_uv(sys.executable)), "tool", "install", "--quiet", "--python", python, str(wheel)]
    subprocess.run(command, env={**uv_environment(python), **own}, check=True)
    return folder / "bin" / "holdfast"


def with_pipx(python: str, wheel: Path, folder: Path) -> Path:
    """The command, installed by pipx."""
    pipx = with_pip(python, Path("pipx"), folder / "pipx").with_name("pipx")
    own = {"PIPX_HOME": str(folder / "home"), "PIPX_BIN_DIR": str(folder / "bin")}
    environment = {**os.environ, **own}  # noqa: TID251 - pipx reads it
    subprocess.run(
        [str(pipx), "install", "--quiet", str(wheel)], env=environment, check=True, stdout=subprocess.DEVNULL
    )
    return folder / "bin" / "holdfast"


def try_all(wheel: Path, pythons: dict[str, str], scratch: Path, user: str = "") -> list[str]:
    """Install and use it in every way; returns what failed."""
    failed: list[str] = []
    ways: list[tuple[str, Callable[[Path], Path]]] = []
    for name, python in pythons.items():
        ways.append((f"{name}, pip", partial(with_pip, python, wheel)))
        ways.append((f"{name}, pip, every extra", partial(with_pip, python, wheel, extras=extras_of(wheel))))
    first = next(iter(pythons.values()))
    ways.append(("uv tool", partial(with_uv_tool, first, wheel)))
    ways.append(("pipx", partial(with_pipx, first, wheel)))
    for number, (name, install) in enumerate(ways):
        try:
            person = Person(scratch / f"home-{number}", install(scratch / f"environment-{number}"), user)
            for check in CHECKS:
                check(person)
        except (AssertionError, subprocess.SubprocessError, pexpect.ExceptionPexpect, OSError) as cause:
            failed.append(name)
            print(f"✗ {name}: {cause}", flush=True)
        else:
            print(
                f"✓ {name}: {len(COMMANDS)} commands, a chat on a terminal, the page in Chromium", flush=True
            )
    return failed


def main(arguments: Sequence[str]) -> int:
    """Try the wheel on the Pythons that are wanted, or on all."""
    parser = argparse.ArgumentParser(description="Install the built wheel as a person does, and use it.")
    parser.add_argument("pythons", nargs="*", help="such as 3.12; all that are here, if none is named")
    parser.add_argument("--user", default="", help="who uses it, when root tries it")
    wanted = parser.parse_args(arguments)
    found = {".".join(map(str, version)): python for version, python in find_pythons().items()}
    chosen = {name: python for name, python in found.items() if not wanted.pythons or name in wanted.pythons}
    if not chosen:
        print(f"none of these Pythons is here; found: {', '.join(found)}")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the person may be another user
        return 1 if try_all(build_wheel(folder / "dist"), chosen, folder, wanted.user) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
