"""`holdfast users password`, `link-sign-in` and `unlink-sign-in`, as a person types them."""

import pytest

from holdfast import SessionDB
from holdfast.core.secret import Secret
from holdfast.host.passwords import Passwords
from tests.cli.real_terminal import Home, run

# Each test is several processes.
pytestmark = pytest.mark.slow

PASSWORD = "correct horse battery"


@pytest.fixture
def home_of_anna(home: Home) -> Home:
    home.database.parent.mkdir(parents=True, exist_ok=True)
    with SessionDB(home.database) as db:
        db.users.create("Anna", "user")
    return home


def fits(home: Home, password: str) -> bool:
    with SessionDB(home.database) as db:
        user = db.users.by_name("anna")
        assert user is not None
        return Passwords().check(db.users.password_hash(user.id), Secret(password)).fits


def test_a_password_is_asked_for_twice_and_never_shown(home_of_anna: Home) -> None:
    terminal = home_of_anna.terminal("users", "password", "anna")
    terminal.see("new password (not shown)")
    terminal.type(PASSWORD)
    terminal.see("the same again")
    terminal.type(PASSWORD)
    terminal.see("Anna has a new password.")
    assert terminal.end() == 0
    assert PASSWORD not in terminal.raw
    assert fits(home_of_anna, PASSWORD)
    terminal = home_of_anna.terminal("users", "password", "anna")
    terminal.see("new password (not shown)")
    terminal.type("another password")
    terminal.see("the same again")
    terminal.type("not the same one")
    terminal.see("the two are not the same. Nothing was changed.")
    assert terminal.end() == 2
    assert fits(home_of_anna, PASSWORD)


def test_a_password_from_a_pipe_signs_browsers_out_and_can_be_taken_away(home_of_anna: Home) -> None:
    with SessionDB(home_of_anna.database) as db:
        user = db.users.by_name("anna")
        assert user is not None
        browser, _ = db.users.issue_token(user.id, "a browser", 3600, "sign-in")
        program, _ = db.users.issue_token(user.id, "a program")
    done = run(home_of_anna, "users", "password", "Anna", "--stdin", given=f"{PASSWORD}\n")
    assert (done.returncode, done.stdout) == (0, "Anna has a new password. 1 browser was signed out.\n")
    assert fits(home_of_anna, PASSWORD)
    with SessionDB(home_of_anna.database) as db:
        assert db.users.of_token(browser) is None
        assert db.users.of_token(program) is not None
    short = run(home_of_anna, "users", "password", "Anna", "--stdin", given="short\n")
    assert (short.returncode, "10 to 1,000 characters" in short.stderr) == (2, True), short.stderr
    nobody = run(home_of_anna, "users", "password", "Nobody", "--stdin", given=PASSWORD)
    assert (nobody.returncode, "there is no account 'Nobody'" in nobody.stderr) == (3, True), nobody.stderr
    asked = run(home_of_anna, "users", "password", "Anna")
    assert (asked.returncode, "--stdin" in asked.stderr) == (2, True), asked.stderr
    assert fits(home_of_anna, PASSWORD)
    gone = run(home_of_anna, "users", "password", "Anna", "--remove")
    assert gone.stdout == "Anna has no password any more.\n"
    assert not fits(home_of_anna, PASSWORD)


def test_somebody_elsewhere_is_linked_to_one_account_alone(home_of_anna: Home) -> None:
    issuer = "https://login.example.org"
    done = run(home_of_anna, "users", "link-sign-in", "anna", issuer, "subject 1")
    assert (done.returncode, done.stdout) == (0, f"subject 1 of {issuer} is Anna from now on.\n")
    with SessionDB(home_of_anna.database) as db:
        found = db.users.of_identity(issuer, "subject 1")
        assert found is not None
        assert found.name == "Anna"
        db.users.create("Berta", "user")
    other = run(home_of_anna, "users", "link-sign-in", "Berta", issuer, "subject 1")
    assert (other.returncode, "is another account" in other.stderr) == (2, True), other.stderr


def test_a_link_with_a_sign_in_elsewhere_is_taken_back_and_its_browsers_are_signed_out(
    home_of_anna: Home,
) -> None:
    issuer = "https://login.example.org"
    with SessionDB(home_of_anna.database) as db:
        anna = db.users.by_name("Anna")
        assert anna is not None
        db.users.link_identity(anna.id, issuer, "subject 1")
        browser, _ = db.users.issue_token(anna.id, issuer, 3600.0, "sign-in")
    done = run(home_of_anna, "users", "unlink-sign-in", issuer, "subject 1")
    assert done.stdout == f"subject 1 of {issuer} is Anna no more. 1 browser was signed out.\n", done.stderr
    with SessionDB(home_of_anna.database) as db:
        assert db.users.of_identity(issuer, "subject 1") is None
        assert db.users.of_token(browser) is None
    again = run(home_of_anna, "users", "unlink-sign-in", issuer, "subject 1")
    assert (again.returncode, "nothing was changed" in again.stderr) == (2, True), again.stderr
