"""SIGKILL in the midst of forgetting: in the end all of it is forgotten everywhere, and nothing else."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.clock import SystemClock
from holdfast.memory import MemoryManager
from holdfast.providers.local import LocalMemory
from holdfast.sessions import SessionDB
from tests.cli.real_terminal import PATIENCE, Home
from tests.memory.workers.folder_memory import FolderMemory

FORGET = ("memory", "forget", "--session", "doomed", "--yes")
BOTH = "local,tests.memory.workers.folder_memory:FolderMemory"
SECRETS = (b"quetzalina", b"marzipan")
KEPT = "My otter is called Bartholomew."


CUT_OFF = (
    ("PassageStore._erase_codes", "call", "local"),  # the passages are gone, the codes of their vectors not
    ("ProviderFile.clean_log", "call", "local"),  # those too, but the log of the file has the words
    ("LocalFacts.forget_selected", "call", "local"),  # the facts are left
    ("FolderMemory.delete", "return", BOTH),  # another provider has forgotten one turn of two
)
"""Where the command is killed, one time after the other; nobody but `local` is in use at first."""


class Person:
    """A person with two conversations, which two memory providers have, and who forgets one of them."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.data = folder / "data" / "holdfast"
        self.files = FolderMemory(self.data)
        settings = folder / "config" / "holdfast" / "memory.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text('[local]\nfacts = "true"\n', encoding="utf-8")
        self.talk()

    def talk(self) -> None:
        from tests.providers.local.hashing_embedder import HashingEmbedder

        with SessionDB(self.home.database) as db, self.local(HashingEmbedder()) as local:
            local.use_facts()
            memory = MemoryManager(db)
            memory.add_provider(local)
            memory.add_provider(self.files)
            memory.sync_all("My heron is called Quetzalina.", "A fine name.", session_id="doomed")
            memory.sync_all("My favourite food is marzipan.", "Sweet.", session_id="doomed")
            memory.sync_all(KEPT, "Noted.", session_id="kept")
            assert memory.flush_pending(PATIENCE)
            while local.build_vectors():
                pass
            local.search("otter", mode="vectors")  # which also writes the file of codes
            memory.shutdown_all()

    @contextmanager
    def local(self, embedder: Any = None) -> Iterator[LocalMemory]:  # noqa: ANN401 - or None
        memory = LocalMemory(self.data / "memory.db", clock=SystemClock(), embedder=embedder)
        try:
            yield memory
        finally:
            memory.shutdown()

    @contextmanager
    def command(
        self, function: str, moment: str, *arguments: str, providers: str
    ) -> Iterator["subprocess.Popen[str]"]:
        command = [sys.executable, "-m", "tests.memory.workers.stopping_command", function, moment]
        with subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env=self.home.environment(HOLDFAST_MEMORY_PROVIDERS=providers, HOLDFAST_MEMORY_START_S="60"),
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def killed(self, function: str, moment: str, providers: str) -> None:
        """Ask to forget, and be killed when the command is there."""
        with self.command(function, moment, *FORGET, providers=providers) as process:
            assert process.stdout is not None
            assert "stopped\n" in iter(process.stdout.readline, ""), "it did not come there"

    @contextmanager
    def server(self, function: str = "", moment: str = "") -> Iterator[tuple[httpx2.Client, Any]]:
        with self.command(function, moment, "web", "--port", "0", providers=BOTH) as process:
            assert process.stdout is not None
            base, _, token = process.stdout.readline().strip().partition("?token=")
            headers = {"Authorization": f"Bearer {token}"}
            with httpx2.Client(base_url=base, headers=headers, timeout=PATIENCE) as http:
                yield http, process

    def traces(self) -> list[str]:
        """Where the providers' files have a word of what is to be forgotten."""
        files = [each for each in self.data.rglob("*") if each.is_file() and "holdfast.db" not in each.name]
        return [each.name for each in files if any(word in each.read_bytes().lower() for word in SECRETS)]


@pytest.mark.slow
@pytest.mark.clause("D1")
def test_whatever_is_killed_all_of_it_is_forgotten_everywhere_and_nothing_else(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    person = Person(tmp_path)
    assert {"memory.db", "facts.db"} <= {each.partition("-")[0] for each in person.traces()}
    wanted = {"session_id": "doomed", "key": "once"}
    with person.server("Forgettings.accept", "return") as (http, process):
        # The request is stored, and the server is gone before anybody has begun with it, or answered.
        _post_and_kill(http, process, wanted)
    for function, moment, providers in CUT_OFF:
        person.killed(function, moment, providers)
    assert len(person.files.texts()) == 2
    with person.server() as (http, _):
        # Who has had no answer asks again, under the same key.
        again = http.post("/api/memory/forget", json=wanted).json()["id"]
        while (states := _states(http)) and any("owed" in each.values() for each in states.values()):
            pass  # the others, of the commands, are carried out too
        assert states == {each: {"local": "done", "folder": "done"} for each in states}
        assert again == min(states)
        assert person.traces() == []
        found = http.get("/api/memory/search", params={"q": "otter Bartholomew heron marzipan"}).json()
        assert {each["session_id"] for each in found["items"] if each["kind"] == "turn"} == {"kept"}
        assert KEPT in {each["text"] for each in found["items"]}
    assert person.files.texts() == [KEPT]
    with person.local() as local:
        assert [each.text for each in local.use_facts().lines("otter", ())] != []


def _states(http: httpx2.Client) -> dict[int, dict[str, str]]:
    """What each provider has done for each forgetting."""
    listed = http.get("/api/memory/forgotten").json()["items"]
    return {one["id"]: {each["provider"]: each["state"] for each in one["providers"]} for one in listed}


def _post_and_kill(http: httpx2.Client, process: "subprocess.Popen[str]", wanted: dict[str, str]) -> None:
    def kill() -> None:
        assert process.stdout is not None
        assert "stopped\n" in iter(process.stdout.readline, "")
        process.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(httpx2.TransportError):
        http.post("/api/memory/forget", json=wanted)
    killer.join()
