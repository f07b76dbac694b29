"""The commands that look at and change what is on record: sessions, memory, model, config, doctor."""

import json
import shutil
import stat
from pathlib import Path
from typing import cast

import pytest

from holdfast import SessionDB
from holdfast.memory.contract import ONLY_HERE
from holdfast.sessions.chat_events import account_lease
from tests.cli.real_terminal import Home, run
from tests.sessions.chat_fixtures import chat_message
from tests.sessions.databases import SharedPostgres
from tests.sessions.store_fixtures import hold_lease

# Each test is several processes.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def talked_once(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """A person who has had two conversations; to be copied, not to be changed."""
    home = Home(tmp_path_factory.mktemp("talked"))
    home.script(["The harbour has a lighthouse."])
    assert run(home, "ask", "tell me of the harbour").returncode == 0
    home.script(["The mountain has a hut."])
    assert run(home, "ask", "tell me of the mountain").returncode == 0
    return home


@pytest.fixture
def talked(talked_once: Home, tmp_path: Path) -> Home:
    """A person who has had two conversations."""
    shutil.copytree(talked_once.folder, tmp_path / "home")
    return Home(tmp_path / "home")


def test_conversations_are_listed_shown_and_searched(talked: Home) -> None:
    listed = run(talked, "sessions").stdout
    assert listed.index("mountain") < listed.index("harbour")
    shown = run(talked, "sessions", "show", "2").stdout
    assert "user: tell me of the harbour" in shown
    assert "assistant: The harbour has a lighthouse." in shown
    assert "lighthouse" in run(talked, "sessions", "search", "lighthouse").stdout
    assert "Nothing was found" in run(talked, "sessions", "search", "submarine").stdout


def test_a_conversation_that_lives_in_a_chat_says_where_in_one_word(talked: Home) -> None:
    with SessionDB(talked.database) as db:
        root = db.conversations.list()[0].root_id
        lease = hold_lease(db, account_lease("telegram"), "a gateway", ttl_seconds=600)
        db.chat_events.receive("telegram", [chat_message("1")], {}, lease=lease)
        db.chat_events.assign(1, root, lease=lease)
    mountain, harbour = run(talked, "sessions").stdout.splitlines()
    assert "[telegram] tell me of the mountain" in mountain
    assert "[" not in harbour
    chats = [each["chat"] for each in json.loads(run(talked, "sessions", "--json").stdout)]
    assert chats == ["telegram", None]
    assert run(talked, "sessions", "show", "1").stdout.splitlines()[0] == "[telegram]"
    assert "telegram" not in run(talked, "sessions", "show", "2").stdout


def test_a_conversation_moves_to_another_store(talked: Home, tmp_path: Path) -> None:
    target = tmp_path / "moved.jsonl"
    assert run(talked, "sessions", "export", "1", str(target)).returncode == 0
    again = run(talked, "sessions", "export", "1", str(target))
    assert (again.returncode, "can't be written" in again.stderr) == (2, True)
    other = Home(tmp_path / "other")
    assert run(other, "sessions", "import", str(target)).returncode == 0
    assert other.said() == ["tell me of the mountain"]


def test_an_ended_conversation_stays_on_record(talked: Home) -> None:
    assert run(talked, "sessions", "end", "1").returncode == 0
    refused = run(talked, "ask", "--session", "1", "more")
    assert refused.returncode == 3
    assert "mountain" in run(talked, "sessions", "show", "1").stdout


def test_memory_is_searched_and_forgotten(talked: Home) -> None:
    found = run(talked, "memory", "search", "lighthouse").stdout
    number = next(line.split()[0] for line in found.splitlines() if "lighthouse" in line)
    assert run(talked, "memory", "forget", number).returncode == 0
    assert "lighthouse" not in run(talked, "memory", "search", "lighthouse").stdout
    assert run(talked, "memory", "forget", number).returncode == 2
    assert "local: 0 turns owed" in run(talked, "memory").stdout


def test_memory_is_forgotten_by_words_and_its_record_has_none_of_them(talked: Home) -> None:
    refused = run(talked, "memory", "forget", "--words", "lighthouse")
    assert refused.returncode == 2
    assert "1 memory" in refused.stdout or "memories" in refused.stdout
    assert "--yes" in refused.stderr
    assert "lighthouse" in run(talked, "memory", "search", "lighthouse").stdout
    done = run(talked, "memory", "forget", "--words", "lighthouse", "--yes")
    assert done.returncode == 0
    assert "deleted" in done.stdout
    assert "lighthouse" not in run(talked, "memory", "search", "lighthouse").stdout
    listed = run(talked, "memory", "forgotten").stdout
    assert "by words" in listed
    assert "lighthouse" not in listed
    again = run(talked, "memory", "forget", "--words", "lighthouse", "--yes")
    assert "nothing in memory fits that" in again.stdout
    assert run(talked, "memory", "retry-forgetting", "1").returncode == 2
    assert run(talked, "memory", "forget").returncode == 2
    assert run(talked, "memory", "forget", "--on", "yesterday").returncode == 2


def test_a_deleted_conversation_is_forgotten_when_that_is_wanted(talked: Home) -> None:
    done = run(talked, "sessions", "delete", "2", "--yes", "--forget-memory")
    assert done.returncode == 0, done.stderr
    assert "local: 2 deleted" in done.stdout, done.stdout
    assert "lighthouse" not in run(talked, "memory", "search", "lighthouse").stdout
    assert "by conversation" in run(talked, "memory", "forgotten").stdout


def test_what_was_set_aside_is_listed_retried_and_dropped(talked: Home) -> None:
    with SessionDB(talked.database) as db:
        session = db.conversations.list()[0].session.id
        turn = next(each.turn_id for each in db.sessions.read(session) if each.turn_id)
        db.outbox.enqueue(turn, "elsewhere")
        [delivery] = db.outbox.claim("elsewhere", lease_seconds=60)
        db.outbox.set_aside(delivery, error="refused for good")
        db.outbox.enqueue(turn, "nowhere")
        [other] = db.outbox.claim("nowhere", lease_seconds=60)
        db.outbox.set_aside(other, error="refused as well")
    listed = run(talked, "memory", "set-aside").stdout
    assert "refused for good" in listed
    assert listed.endswith("2 set aside\n")
    first = run(talked, "memory", "set-aside", "--limit", "1").stdout
    assert first.endswith("more than 1 are set aside; --limit shows more of them\n")
    assert len(first.splitlines()) == 2
    assert run(talked, "memory", "retry", str(delivery.id)).returncode == 0
    assert "elsewhere" in run(talked, "memory", "owed").stdout
    assert run(talked, "memory", "drop", str(delivery.id)).returncode == 3


def test_a_setting_is_changed_and_the_rest_of_the_file_stays(home: Home) -> None:
    file = Path(run(home, "config", "path").stdout.strip())
    file.parent.mkdir(parents=True)
    file.write_text(
        "# mine\n[memory]\nproviders = []  # nobody\n\n[limits]\nmax_steps = 7\n", encoding="utf-8"
    )
    assert run(home, "config", "set", "limits.max_steps", "9").returncode == 0
    assert run(home, "config", "set", "model.api_key", "sk-very-secret").returncode == 0
    text = file.read_text(encoding="utf-8")
    assert "# mine" in text
    assert "max_steps = 9" in text
    assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0
    shown = run(home, "config").stdout
    assert "limits.max_steps = 9" in shown
    assert "very-secret" not in shown


@pytest.mark.parametrize(
    ("key", "value"), [("limits.max_steps", "0"), ("limits.nonsense", "1"), ("nonsense", "1")]
)
def test_a_setting_that_does_not_fit_changes_nothing(home: Home, key: str, value: str) -> None:
    run(home, "config", "set", "limits.max_steps", "9")
    file = Path(run(home, "config", "path").stdout.strip())
    before = file.read_bytes()
    assert run(home, "config", "set", key, value).returncode == 2
    assert file.read_bytes() == before


def test_a_value_that_does_not_fit_is_named_and_nothing_was_changed(home: Home) -> None:
    ran = run(home, "config", "set", "memory.recall_s", "soon")
    assert "nothing was changed), line 4, memory.recall_s" in ran.stderr


def test_before_the_first_conversation_it_is_said_how_to_begin(home: Home) -> None:
    ran = run(home, "sessions")
    assert (ran.returncode, "the first conversation makes it" in ran.stderr) == (4, True)


@pytest.mark.parametrize(("written", "code"), [("max_steps = 3", 0), ("max_steps = 0", 2)])
def test_an_edited_file_counts_only_when_it_fits(home: Home, written: str, code: int) -> None:
    editor = home.folder / "editor.sh"
    editor.write_text(f'#!/bin/sh\nprintf "[limits]\\n{written}\\n" > "$1"\n', encoding="utf-8")
    editor.chmod(0o700)
    home.settings["EDITOR"] = str(editor)
    home.settings["VISUAL"] = ""
    assert run(home, "config", "edit").returncode == code
    assert ("limits.max_steps = 3" in run(home, "config").stdout) == (code == 0)


def test_the_doctor_says_how_everything_stands(talked: Home) -> None:
    ran = run(talked, "doctor", "--json")
    findings = {each["about"]: each for each in json.loads(ran.stdout)}
    assert ran.returncode == 0
    assert findings["store"]["state"] == "ok"
    assert findings["model"]["state"] == "ok"
    assert "holdfast.log" in findings["log"]["text"]
    assert findings["sandbox"]["state"] in ("ok", "note")
    assert "passages" in findings["memory local"]["text"]


@pytest.mark.parametrize("is_shared", [False, True], ids=["sqlite", "postgres"])
def test_a_memory_in_files_of_this_machine_is_told_of_where_the_store_serves_several(
    home: Home, is_shared: bool, request: pytest.FixtureRequest
) -> None:
    if is_shared:
        shared: SharedPostgres = request.getfixturevalue("shared_postgres")
        home.settings["HOLDFAST_STORE_URL"] = shared.empty()
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = "local"
    home.script(["hello"])
    assert run(home, "ask", "hello").returncode == 0
    for command in ("doctor", "memory"):
        assert (ONLY_HERE in run(home, command).stdout) is is_shared, command


def test_the_doctor_names_what_is_wrong(talked: Home) -> None:
    talked.settings["HOLDFAST_MODEL_NAME"] = "/no/such/script"
    talked.settings["HOLDFAST_MEMORY_PROVIDERS"] = "local,unheard-of"
    talked.settings["HOLDFAST_TOOLS_SANDBOX"] = "podman"
    talked.settings["HOLDFAST_TOOLS_SANDBOX_IMAGE"] = "no.such.host/no-such-image:0"
    ran = run(talked, "doctor")
    assert ran.returncode == 1
    assert "✗ model: " in ran.stdout
    assert "✗ sandbox: commands are refused" in ran.stdout
    assert "unheard-of" in ran.stdout
    assert "✓ store: " in ran.stdout


def test_the_model_is_shown_and_tested(home: Home) -> None:
    home.script(["ready"])
    assert "scripted" in run(home, "model").stdout
    assert "scripted answers in" in run(home, "model", "test").stdout


def test_help_fits_a_screen(home: Home) -> None:
    for command in ([], ["chat"], ["ask"], ["sessions"], ["memory"], ["config"], ["model"], ["doctor"]):
        ran = run(home, *command, "--help")
        assert ran.returncode == 0
        assert len(ran.stdout.splitlines()) <= 24


def test_an_error_shows_its_traceback_only_when_debugging(home: Home) -> None:
    assert "Traceback" not in run(home, "sessions", "show", "nothing").stderr
    assert "Traceback" in run(home, "--debug", "sessions", "show", "nothing").stderr


def test_facts_are_searched_and_forgotten(home: Home) -> None:
    pytest.importorskip("numpy")
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = "holographic"
    facts = {"facts": [{"content": "The user keeps a lighthouse"}]}
    home.script(["Noted.", json.dumps(facts)])
    run(home, "ask", "I keep a lighthouse by the sea")
    assert "facts about" in run(home, "memory").stdout
    found = run(home, "memory", "search", "lighthouses").stdout
    assert "trust 0.50: The user keeps a lighthouse" in found
    number = found.split()[0]
    assert run(home, "memory", "forget", number, "--provider", "holographic").returncode == 0
    assert "Nothing was found" in run(home, "memory", "search", "lighthouse").stdout
    assert run(home, "memory", "forget", number).returncode == 2
    assert run(home, "memory", "search", "x", "--provider", "nobody").returncode == 2
    findings = {each["about"]: each for each in json.loads(run(home, "doctor", "--json").stdout)}
    # It works, and serves nobody but the owner.
    assert findings["memory holographic"]["state"] == "note"


def test_conversations_are_renamed_pinned_and_archived(talked: Home) -> None:
    assert "Alps" in run(talked, "sessions", "rename", "1", "Alps").stdout
    run(talked, "sessions", "pin", "2")
    listed = run(talked, "sessions").stdout
    assert "Alps" in listed
    assert "[pinned] tell me of the harbour" in listed
    run(talked, "sessions", "unpin", "2")
    run(talked, "sessions", "archive", "1")
    listed = run(talked, "sessions").stdout
    assert "Alps" not in listed
    assert "pinned" not in listed
    [archived] = json.loads(run(talked, "sessions", "--archived", "--json").stdout)
    assert (archived["title"], archived["archived"]) == ("Alps", True)
    # The numbers are those of the list; an archived one is found by its id, and by search.
    assert "harbour" in run(talked, "sessions", "show", "1").stdout
    assert "hut" in run(talked, "sessions", "show", archived["id"][-8:]).stdout
    assert "hut" in run(talked, "sessions", "search", "hut").stdout
    assert run(talked, "sessions", "unarchive", "1").returncode == 0
    assert "Alps" in run(talked, "sessions").stdout
    run(talked, "sessions", "rename", archived["id"])
    assert "Alps" not in run(talked, "sessions").stdout


def test_a_conversation_is_deleted_only_when_somebody_says_so(talked: Home) -> None:
    refused = run(talked, "sessions", "delete", "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    terminal = talked.terminal("sessions", "delete", "1")
    terminal.see("tell me of the mountain", "2 messages for good? [y/N]")
    terminal.type("n\r")
    terminal.see("nothing was deleted")
    with SessionDB(talked.database) as db:
        [mountain, harbour] = db.conversations.list()
        db.inbox.put(mountain.session.id, {"role": "user", "content": "later"})
    waits = run(talked, "sessions", "delete", "1", "--yes")
    assert (waits.returncode, "wait in its inbox" in waits.stderr) == (3, True)
    assert run(talked, "sessions", "delete", "1", "--yes", "--force").returncode == 0
    with SessionDB(talked.database) as db:
        assert [each.root_id for each in db.conversations.list()] == [harbour.root_id]
        assert db.check() == []


def test_what_a_deleted_conversations_tools_kept_goes_with_it(home: Home) -> None:
    home.settings = {"HOLDFAST_TOOLS_APPROVAL": "never-ask", "HOLDFAST_TOOLS_RESULT_CHARACTERS": "1000"}
    home.script([{"tool": "run_command", "arguments": {"command": "seq 1 5000"}}, "done"])
    assert run(home, "ask", "count").returncode == 0
    outputs = list((home.folder / "data" / "holdfast" / "outputs").rglob("*.txt"))
    assert len(outputs) == 1
    assert run(home, "sessions", "delete", "1", "--yes").returncode == 0
    assert not outputs[0].exists()


def test_what_a_conversation_did_to_files_is_shown_and_taken_back(home: Home) -> None:
    notes = home.project / "notes.md"
    notes.write_text("tide at noon\n")
    write = {"tool": "write_file", "arguments": {"path": "notes.md", "text": "tide at six\n"}}
    home.script([write, "changed"])
    run(home, "ask", "correct it: @notes.md")
    with SessionDB(home.database) as db:
        first = db.get_messages(db.conversations.list()[0].root_id)[0]
    said, file = cast("list[dict[str, str]]", first["content"])
    assert (said["text"], "tide at noon" in file["text"]) == ("correct it: @notes.md", True)
    shown = run(home, "sessions", "changes", "1").stdout
    assert shown.splitlines()[0] == "changed notes.md"
    assert "-tide at noon\n+tide at six" in shown
    refused = run(home, "sessions", "undo-files", "1")
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True)
    assert "restored notes.md" in run(home, "sessions", "undo-files", "1", "--turn", "last", "--yes").stdout
    assert notes.read_text() == "tide at noon\n"
    assert "(taken back)" in run(home, "sessions", "changes", "1").stdout
    report = json.loads(run(home, "usage", "--by", "purpose", "--json").stdout)
    assert [(each["key"], each["total"]["requests"]) for each in report["groups"]] == [("turn", 2)]
    assert "unknown" in run(home, "usage").stdout
