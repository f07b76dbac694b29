"""`holdfast users`, as a person types it."""

import json

import pytest

from holdfast import SessionDB
from tests.cli.real_terminal import Home, run

# Each test is several processes.
pytestmark = [pytest.mark.slow, pytest.mark.clause("N5")]


def test_an_account_is_added_changed_disabled_and_removed(home: Home) -> None:
    added = run(home, "users", "add", "Ada", "--daily-turns", "5")
    assert added.returncode == 0, added.stderr
    secret = added.stdout.split()[-1]
    with SessionDB(home.database) as db:
        ada = db.users.of_token(secret)
        assert ada is not None
        assert (ada.name, ada.role, ada.daily_turns) == ("Ada", "user", 5)
        db.create_session("mine", source="web", scope=ada.scope)
    assert run(home, "users", "add", "ADA").returncode == 3
    assert run(home, "users", "add", "a\u202eb").returncode == 2
    assert "5 turns a day" in run(home, "users").stdout
    changed = run(home, "users", "change", "ada", "--role", "guest", "--daily-turns", "-1")
    assert changed.stdout == "Ada: guest\n"
    assert run(home, "users", "change", "ada").returncode == 2
    assert run(home, "users", "disable", "ada").stdout == "Ada is disabled\n"
    assert json.loads(run(home, "users", "list", "--json").stdout)[0]["disabled"]
    assert run(home, "users", "token", "ada").returncode == 3
    assert run(home, "users", "enable", "ada").returncode == 0
    refused = run(home, "users", "remove", "ada")
    assert (refused.returncode, "1 conversations" in refused.stderr) == (3, True)
    assert run(home, "users", "remove", "ada", "--delete-conversations").returncode == 0
    with SessionDB(home.database) as db:
        assert db.get_session("mine") is None
        assert db.users.list() == []
    log = run(home, "users", "audit").stdout
    assert log.splitlines()[0].find("user.removed") > 0
    assert secret not in log


def test_tokens_are_listed_and_revoked_and_invitations_count(home: Home) -> None:
    assert run(home, "users", "add", "Ada").returncode == 0
    secret = run(home, "users", "token", "Ada", "--label", "phone", "--days", "3").stdout.split()[-1]
    listed = json.loads(run(home, "users", "tokens", "Ada", "--json").stdout)
    [phone] = [each for each in listed if each["label"] == "phone"]
    assert secret not in str(listed)
    assert run(home, "users", "revoke", phone["id"]).returncode == 0
    assert run(home, "users", "revoke", phone["id"]).returncode == 2
    assert "revoked" in run(home, "users", "tokens", "Ada").stdout
    code = run(home, "users", "invite", "--role", "guest").stdout.split()[-1]
    with SessionDB(home.database) as db:
        assert db.users.of_token(secret) is None
        assert db.users.accept(code, "Ben").role == "guest"
    assert run(home, "users", "link", "Ada", "telegram", "1").returncode == 0
    assert run(home, "users", "link", "Ben", "telegram", "1").returncode == 2
    assert "chat:telegram 1" in run(home, "users").stdout
    assert run(home, "users", "unlink", "telegram", "1").returncode == 0
    gone = run(home, "users", "disable", "nobody")
    assert (gone.returncode, "there is no account 'nobody'" in gone.stderr) == (3, True)


def test_a_limit_of_storage_is_set_shown_and_taken_away(home: Home) -> None:
    assert run(home, "users", "add", "Ada", "--storage", "1.5MB", "--daily-turns", "5").returncode == 0
    with SessionDB(home.database) as db:
        ada = db.users.by_name("Ada")
        assert ada is not None
        assert ada.storage_limit == 1_500_000
        db.create_session("mine", source="web", scope=ada.scope)
        db.sessions.append_messages("mine", [{"role": "user", "content": "a" * 20_000}])
    assert "20 kB of 1.5 MB kept" in run(home, "users").stdout
    shown = run(home, "users", "show", "ada").stdout
    assert "turns of 24 hours: 0 of 5\n" in shown
    assert "tokens of 24 hours: 0 of any number\n" in shown
    assert "storage: 20 kB of 1.5 MB\n" in shown
    told = json.loads(run(home, "users", "show", "ada", "--json").stdout)
    assert (told["storage_limit"], told["turns_used"]) == (1_500_000, 0)
    refused = run(home, "users", "change", "ada", "--storage", "much")
    assert (refused.returncode, "is a size" in refused.stderr) == (2, True)
    assert run(home, "users", "change", "ada", "--storage", "-1").returncode == 0
    assert "storage: 20 kB of any amount\n" in run(home, "users", "show", "ada").stdout
