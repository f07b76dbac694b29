"""Install the built wheel as a person does, and use it: `make try-wheel`.

On each supported Python that this machine has, each time in a new home outside the checkout: by pip into a
fresh environment, with every extra, by `uv tool install` and by pipx. Then commands, a chat on a terminal,
the page in Chromium, an exit, with 1,024 open files. Less: `make try-wheel TRY_ARGS="3.12 --ways pip uv"`.
Root may let an ordinary user do it, who must be able to read the Pythons: `TRY_ARGS="--user alex"`.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from collections.abc import Callable, Sequence
from itertools import count, product
from pathlib import Path

import pexpect

from tests.web.page.chromium import a_browser
from tools.bootstrap import ROOT, machine_has_certificates
from tools.pythons import find_pythons

PATIENCE = 120
OPEN_FILES = 1024
"""What an ordinary user may open."""
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
    """A home of its own, in which nothing was ever started, and the user whose home it is."""

    def __init__(self, folder: Path, user: str = "") -> None:
        self.folder = folder
        # runuser keeps the variables, but for the home.
        self._as_user = ["runuser", "-u", user, "--", "env", f"HOME={folder}"] if user else []
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        (folder / "script.json").write_text('["Here I am.", "Here I am."]', encoding="utf-8")
        if user:
            for each in (folder, self.project):
                shutil.chown(each, user, user)
        self.command = [*self._as_user, "holdfast"]

    def environment(self, **more: str) -> dict[str, str]:
        """The machine's variables without those that reach a model, a checkout or another home."""
        dropped = ("HOLDFAST_", "OPENAI_", "ANTHROPIC_", "OPENROUTER_", "XDG_", "PYTHON", "VIRTUAL_ENV")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}  # noqa: TID251
        return {**kept, "HOME": str(self.folder), "TERM": "xterm-256color", **more}

    def scripted(self) -> dict[str, str]:
        """With a model that plays a script."""
        script = str(self.folder / "script.json")
        return self.environment(HOLDFAST_MODEL_PROVIDER="scripted", HOLDFAST_MODEL_NAME=script)

    def runs(self, *command: str | Path, **more: str) -> None:
        """Run a command to its end; raises `AssertionError` with what it printed when it fails."""
        done = subprocess.run(
            [*self._as_user, *map(str, command)],
            env=self.environment(**more),
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")

    def installed(self, command: Path) -> Path:
        """Take this as the command to use; returns it."""
        self.command = [*self._as_user, str(command)]
        return command


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


def environment_with(person: Person, python: str, name: str, *packages: str) -> Path:
    """The folder of the programs of a fresh environment, in which pip installed these packages."""
    folder = person.folder / name
    person.runs(python, "-m", "venv", folder)
    person.runs(folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages)
    return folder / "bin"


def with_pip(person: Person, python: str, wheel: Path) -> None:
    """Install it by pip into a fresh environment."""
    person.installed(environment_with(person, python, "environment", str(wheel)) / "holdfast")


def with_every_extra(person: Person, python: str, wheel: Path) -> None:
    """Install it by pip with all extras; every import that it writes must then work."""
    wanted = f"{wheel}[{','.join(extras_of(wheel))}]"
    programs = environment_with(person, python, "environment", wanted)
    person.runs(programs / "python", "-m", "pip", "check")
    script = shutil.copy(ROOT / "tools" / "written_imports.py", person.folder)  # the person reads no checkout
    person.runs(programs / "python", script, "holdfast")
    person.installed(programs / "holdfast")


def with_uv_tool(person: Person, python: str, wheel: Path) -> None:
    """Install it by `uv tool install`."""
    uv = environment_with(person, python, "uv", "uv") / "uv"
    trust = {"UV_SYSTEM_CERTS": "true"} if machine_has_certificates() else {}
    person.runs(uv, "tool", "install", "--quiet", "--python", python, wheel, **trust)
    person.installed(person.folder / ".local" / "bin" / "holdfast")


def with_pipx(person: Person, python: str, wheel: Path) -> None:
    """Install it by pipx."""
    pipx = environment_with(person, python, "pipx", "pipx") / "pipx"
    person.runs(pipx, "install", "--quiet", "--python", python, wheel)
    person.installed(person.folder / ".local" / "bin" / "holdfast")


WAYS: dict[str, Callable[[Person, str, Path], None]] = {
    "pip": with_pip,
    "extras": with_every_extra,
    "uv": with_uv_tool,
    "pipx": with_pipx,
}


def try_all(wheel: Path, pythons: dict[str, str], ways: Sequence[str], home: Callable[[], Person]) -> bool:
    """Install and use it in these ways on these Pythons; says whether all of it worked."""
    failed = False
    for (name, python), way in product(pythons.items(), ways):
        try:
            person = home()
            WAYS[way](person, python, wheel)
            for check in CHECKS:
                check(person)
        except (AssertionError, subprocess.SubprocessError, pexpect.ExceptionPexpect, OSError) as cause:
            failed = True
            print(f"✗ {name}, {way}: {cause}", flush=True)
        else:
            seen = f"{len(COMMANDS)} commands, a chat on a terminal, the page in Chromium"
            print(f"✓ {name}, {way}: {seen}", flush=True)
    return not failed


def main(arguments: Sequence[str]) -> int:
    """Try the wheel on the Pythons that are wanted, or on all."""
    parser = argparse.ArgumentParser(description="Install the built wheel as a person does, and use it.")
    parser.add_argument("pythons", nargs="*", help="such as 3.12; all that are here, if none is named")
    parser.add_argument("--user", default="", help="who installs and uses it, when root tries it")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="how it is installed")
    wanted = parser.parse_args(arguments)
    found = {".".join(map(str, version)): python for version, python in find_pythons().items()}
    chosen = {name: python for name, python in found.items() if not wanted.pythons or name in wanted.pythons}
    if not chosen:
        print(f"none of these Pythons is here; found: {', '.join(found)}")
        return 1
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (OPEN_FILES, most))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        folder.chmod(0o755)  # the person may be another user
        numbers = count()
        wheel = build_wheel(folder / "dist")
        worked = try_all(
            wheel, chosen, wanted.ways, lambda: Person(folder / f"home-{next(numbers)}", wanted.user)
        )
        return 0 if worked else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
