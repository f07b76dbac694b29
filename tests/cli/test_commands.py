"""The command as a shell sees it: output, diagnostics, exit codes. Real processes only."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import SessionDB


def holdfast(*arguments: str, store: str) -> subprocess.CompletedProcess[str]:
    process = start(*arguments, store=store)
    stdout, stderr = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def start(*arguments: str, store: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "HOLDFAST_STORE_URL": store,
        "HOLDFAST_EXIT_WATCHDOG_S": "20",
        "HOLDFAST_SETTINGS": os.devnull,
    }
    command = [sys.executable, "-c", "from holdfast.cli.main import main; main()", *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = tmp_path / "holdfast.db"
    with SessionDB(path) as db:
        db.create_session("s", source="test")
        db.sessions.append_message("s", {"role": "user", "content": "keep this"})
    return f"sqlite:///{path}"


def test_the_version_is_printed_without_importing_any_library(store: str) -> None:
    ran = holdfast("--version", store=store)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("holdfast 0.")


def test_backup_copies_the_store_and_says_where(store: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    ran = holdfast("backup", str(copy), store=store)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert str(copy) in ran.stdout
    with SessionDB(copy) as db:
        assert db.get_messages("s") == [{"role": "user", "content": "keep this"}]


def test_backup_never_overwrites_a_file(store: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    copy.write_text("mine")
    ran = holdfast("backup", str(copy), store=store)
    assert ran.returncode == 4
    assert "already exists" in ran.stderr
    assert copy.read_text() == "mine"


@pytest.mark.parametrize(
    "signum",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
    ],
)
def test_a_backup_that_a_signal_ends_leaves_nothing_behind(
    store: str, tmp_path: Path, signum: signal.Signals
) -> None:
    with SessionDB(store.removeprefix("sqlite:///")) as db:
        db.sessions.append_messages("s", [{"role": "tool", "data": "x" * 1_000_000} for _ in range(30)])  # type: ignore[typeddict-unknown-key]
    folder = tmp_path / "copies"
    folder.mkdir()
    code, said = stopped_backup(store, folder, signum)
    assert code == 128 + signum
    assert said.startswith("holdfast: ")
    assert "Traceback" not in said


def stopped_backup(store: str, folder: Path, signum: signal.Signals) -> tuple[int, str]:
    """A copy may be done before the signal comes; then the next one is stopped."""
    for number in range(20):
        target = folder / f"copy{number}.db"
        process = start("backup", str(target), store=store)
        while process.poll() is None and not list(folder.glob("*.unfinished")):
            pass
        process.send_signal(signum)
        _, said = process.communicate(timeout=60)
        assert not [each.name for each in folder.iterdir() if "unfinished" in each.name]
        assert target.exists() == (process.returncode == 0)
        if process.returncode:
            return process.returncode, said
    raise AssertionError("every copy was done before the signal came")


def test_backup_of_a_missing_store_makes_none(tmp_path: Path) -> None:
    ran = holdfast("backup", str(tmp_path / "copy.db"), store=f"sqlite:///{tmp_path}/none.db")
    assert ran.returncode == 4
    assert "no such file" in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_check_says_that_a_sound_store_is_sound(store: str) -> None:
    ran = holdfast("check", store=store)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "is sound" in ran.stdout


def test_check_names_what_is_wrong_with_a_damaged_store(store: str) -> None:
    path = Path(store.removeprefix("sqlite:///"))
    damaged = bytearray(path.read_bytes())
    damaged[8192:] = b"\x55" * (len(damaged) - 8192)
    path.write_bytes(damaged)
    ran = holdfast("check", store=store)
    assert ran.returncode == 4
    assert "damaged" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert path.read_bytes() == bytes(damaged)


@pytest.mark.parametrize("arguments", [["backup"], ["nonsense"], ["backup", "a", "b"]])
def test_wrong_arguments_are_explained_and_change_nothing(arguments: list[str], store: str) -> None:
    ran = holdfast(*arguments, store=store)
    assert ran.returncode != 0
    assert ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_wrong_setting_is_named(store: str) -> None:
    ran = holdfast("check", store=store.replace("sqlite", "sqlit"))
    assert ran.returncode == 2
    assert "sqlite:///PATH" in ran.stderr


HEAVY = ("cyclopts", "httpx", "httpx2", "openai", "anthropic", "mcp", "pygments", "fastapi", "uvicorn")


def test_a_chat_starts_without_what_only_some_chats_need() -> None:
    """Everything that is imported before the prompt is shown, and nothing that waits for its use."""
    code = (
        "import sys; import holdfast.cli.main, holdfast.cli.start_chat, holdfast.cli.terminal.run_chat;"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
