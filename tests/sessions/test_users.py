"""Accounts: a name once in whatever case, secrets that are never stored, and an entry for each change."""

from collections.abc import Callable

import pytest

from holdfast.core.errors import (
    InvalidInput,
    InvitationInvalid,
    TooManyTokens,
    UserDisabled,
    UserExists,
    UserInUse,
    UserNotFound,
)
from holdfast.sessions import SessionDB, audit_log
from holdfast.sessions.contract import Transaction
from holdfast.sessions.moving.moved_tables import TABLES
from holdfast.sessions.user_operations import MOST_TOKENS
from holdfast.sessions.user_records import UserChanges
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import completed_turn, user

pytestmark = pytest.mark.clause("G6", "S5")


def everything(db: SessionDB) -> str:
    """All that is in the store, as text."""

    def read(tx: Transaction) -> str:
        return "".join(
            repr(tuple(row))
            for table in TABLES
            for row in tx.connection.execute(f"select * from {table.name}")  # noqa: S608
        )

    return db._engine.read(read)  # noqa: SLF001 - the tables as a whole


def actions(db: SessionDB) -> list[str]:
    return [each.action for each in reversed(db.audit.list())]


def test_an_account_has_a_scope_of_its_own_and_is_found_by_name_in_any_case(db: SessionDB) -> None:
    ada = db.users.create("Ada Straße", "admin", daily_turns=3)
    assert ada.scope == f"user/{ada.id}"
    assert (ada.role, ada.daily_turns, ada.daily_tokens, ada.disabled) == ("admin", 3, None, None)
    assert db.users.by_name(" ADA STRASSE ") == ada
    assert db.users.get(ada.id) == db.users.of_scope(ada.scope) == ada
    with pytest.raises(UserExists):
        db.users.create("ada strasse")
    ben = db.users.create("ben")
    assert [each.name for each in db.users.list()] == ["Ada Straße", "ben"]
    with pytest.raises(UserExists):
        db.users.change(ben.id, UserChanges(name="ADA STRASSE"))
    assert db.users.get(ben.id) == ben
    assert db.users.get("nobody") is db.users.by_name("nobody") is db.users.of_scope("") is None


@pytest.mark.parametrize(
    "name", ["", "   ", "a\nb", "a\0b", "a\u202eb", "a\u200bb", "x" * 81, "\ud800", "a\x1b[31m", "a\u2028b"]
)
def test_a_hostile_name_is_refused_and_makes_nothing(db: SessionDB, name: str) -> None:
    with pytest.raises(InvalidInput):
        db.users.create(name)
    code = db.users.invite("user", 60)
    with pytest.raises(InvalidInput):
        db.users.accept(code, name)
    assert db.users.list() == []
    assert db.users.accept(code, "Ada").name == "Ada", "the invitation still counts"


@pytest.mark.parametrize("name", ["'; drop table users; --", "../../etc", "<script>alert(1)</script>", "%s"])
def test_a_name_is_only_a_name(db: SessionDB, name: str) -> None:
    made = db.users.create(name)
    assert db.users.by_name(name) == made
    assert "/" not in made.scope.removeprefix("user/")


def test_roles_and_limits_change_and_nothing_else_is_taken(db: SessionDB) -> None:
    made = db.users.create("Ada", daily_tokens=10)
    changed = db.users.change(made.id, UserChanges(role="guest", daily_turns=0, daily_tokens=-1))
    assert (changed.role, changed.daily_turns, changed.daily_tokens) == ("guest", 0, None)
    for wrong in (UserChanges(role="king"), UserChanges(daily_turns=-2)):  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            db.users.change(made.id, wrong)
    with pytest.raises(UserNotFound):
        db.users.change("nobody", UserChanges(role="admin"))
    assert db.users.get(made.id) == changed
    assert db.audit.list()[0].detail == "role=guest, daily_turns=0, daily_tokens=none"


def test_a_token_lets_in_until_it_is_revoked(db: SessionDB) -> None:
    ada, ben = db.users.create("Ada"), db.users.create("Ben")
    secret, token = db.users.issue_token(ada.id, "phone")
    other, _ = db.users.issue_token(ada.id, "laptop")
    assert db.users.of_token(secret) == ada
    assert db.users.of_token(secret + "x") is db.users.of_token("") is db.users.of_token("\ud800") is None
    assert not db.users.revoke_token(token.id, user_id=ben.id), "only one of its own"
    assert db.users.of_token(secret) == ada
    assert db.users.revoke_token(token.id)
    assert not db.users.revoke_token(token.id)
    assert db.users.of_token(secret) is None
    assert db.users.of_token(other) == ada
    assert [each.label for each in db.users.tokens(ada.id)] == ["phone", "laptop"]
    assert db.users.tokens(ben.id) == []


def test_a_token_expires_and_its_last_use_is_on_record(database: Database) -> None:
    db = database.open()
    ada = db.users.create("Ada")
    secret, issued = db.users.issue_token(ada.id, "browser", 3600, "sign-in")
    assert issued.last_used is None
    database.clock.advance(1000)
    assert db.users.of_token(secret) == ada
    [used] = db.users.tokens(ada.id)
    assert used.last_used == issued.created + 1_000_000_000
    database.clock.advance(2601)
    assert db.users.of_token(secret) is None
    database.clock.advance(31 * 86_400)
    db.users.issue_token(ada.id, "browser", 3600, "sign-in")
    assert len(db.users.tokens(ada.id)) == 1, "a sign-in that counts no more goes after a while"
    _, revoked = db.users.issue_token(ada.id, "lost")
    db.users.issue_token(ada.id, "short", 3600)
    _, kept = db.users.issue_token(ada.id, "laptop")
    db.users.revoke_token(revoked.id)
    database.clock.advance(31 * 86_400)
    _, newest = db.users.issue_token(ada.id, "phone")
    assert [each.id for each in db.users.tokens(ada.id)] == [kept.id, newest.id]


def test_a_disabled_account_is_let_in_by_nothing_until_it_is_enabled(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    secret, _ = db.users.issue_token(ada.id, "phone")
    assert db.users.disable(ada.id)
    assert not db.users.disable(ada.id)
    assert db.users.of_token(secret) is None
    with pytest.raises(UserDisabled):
        db.users.issue_token(ada.id, "another")
    assert db.users.enable(ada.id)
    assert not db.users.enable(ada.id)
    assert db.users.of_token(secret) == ada


def test_no_secret_is_in_the_store(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    secret, _ = db.users.issue_token(ada.id, "phone")
    code = db.users.invite("user", 60)
    db.users.accept(code, "Ben")
    stored = everything(db)
    assert ada.id in stored
    assert secret not in stored
    assert code not in stored
    assert secret.partition("_")[2] not in stored


def test_an_invitation_makes_one_account_of_its_role(database: Database) -> None:
    db = database.open()
    code = db.users.invite("guest", 60)
    late = db.users.invite("admin", 60)
    ada = db.users.create("Ada")
    with pytest.raises(UserExists):
        db.users.accept(code, "ada")
    ben = db.users.accept(f" {code}\n", "Ben")
    assert ben.role == "guest"
    for wrong in (code, "hfi_guess", ""):
        with pytest.raises(InvitationInvalid):
            db.users.accept(wrong, "Cleo")
    database.clock.advance(61)
    with pytest.raises(InvitationInvalid):
        db.users.accept(late, "Cleo")
    assert db.users.list() == [ada, ben]


def test_an_account_is_known_by_its_identities_elsewhere(db: SessionDB) -> None:
    ada, ben = db.users.create("Ada"), db.users.create("Ben")
    db.users.link_identity(ada.id, "https://sso", "1")
    db.users.link_identity(ada.id, "https://sso", "1")
    assert db.users.of_identity("https://sso", "1") == ada
    assert db.users.of_identity("https://other", "1") is None
    with pytest.raises(InvalidInput):
        db.users.link_identity(ben.id, "https://sso", "1")
    assert [(each.issuer, each.subject) for each in db.users.identities(ada.id)] == [("https://sso", "1")]
    assert db.users.unlink_identity("https://sso", "1")
    assert not db.users.unlink_identity("https://sso", "1")
    assert db.users.of_identity("https://sso", "1") is None


def test_a_name_finds_an_account_for_one_identity_of_an_issuer(db: SessionDB) -> None:
    ada = db.users.create("Ad\u00e9")
    assert db.users.link_by_name("proxy", "ad\u00e9") is None
    assert db.users.link_by_name("proxy", "nobody") is None
    assert db.users.link_by_name("proxy", "Ade\u0301") == ada, "the same letters, written otherwise"
    assert db.users.link_by_name("proxy", "Ad\u00e9") is None
    assert db.users.of_identity("proxy", "Ad\u00e9") is None
    assert db.users.link_by_name("other", "Ad\u00e9") == ada
    assert actions(db) == ["user.created", "identity.linked", "identity.linked"]


def test_no_more_tokens_count_than_an_account_may_have(database: Database) -> None:
    db = database.open()
    ada, ben = db.users.create("Ada"), db.users.create("Ben")
    made = [db.users.issue_token(ada.id, str(each), 100)[1] for each in range(MOST_TOKENS)]
    before = db.audit.list(limit=1)
    with pytest.raises(TooManyTokens):
        db.users.issue_token(ada.id, "one more")
    assert db.users.tokens(ada.id) == made
    assert db.audit.list(limit=1) == before
    db.users.issue_token(ben.id, "of another account")
    db.users.issue_token(ada.id, "browser", 60, "sign-in")
    db.users.revoke_token(made[0].id)
    db.users.issue_token(ada.id, "instead", 100)
    with pytest.raises(TooManyTokens):
        db.users.issue_token(ada.id, "one more")
    database.clock.advance(101)
    db.users.issue_token(ada.id, "after the others ended")


def test_a_sign_in_too_many_ends_the_oldest(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    secrets = [db.users.issue_token(ada.id, str(n), 60, "sign-in")[0] for n in range(MOST_TOKENS + 1)]
    assert db.users.of_token(secrets[0]) is None
    assert all(db.users.of_token(each) == ada for each in secrets[1:])
    assert db.audit.list(limit=1)[0].action == "signed-out"


def test_a_password_is_kept_as_the_hash_that_was_given(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    assert db.users.password_hash(ada.id) is None
    db.users.set_password_hash(ada.id, "$argon")
    assert db.users.password_hash(ada.id) == "$argon"
    db.users.set_password_hash(ada.id, None)
    assert db.users.password_hash(ada.id) is None
    with pytest.raises(UserNotFound):
        db.users.set_password_hash("nobody", "x")
    assert actions(db) == ["user.created", "password.set", "password.removed"]


def test_an_account_with_conversations_is_not_removed(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    secret, _ = db.users.issue_token(ada.id, "phone")
    db.create_session("s", source="web", scope=ada.scope)
    with pytest.raises(UserInUse) as refused:
        db.users.remove(ada.id)
    assert refused.value.conversations == 1
    assert db.users.of_token(secret) == ada
    assert db.users.conversations(ada.scope) == ["s"]
    db.delete_session("s")
    db.users.remove(ada.id)
    assert db.users.get(ada.id) is db.users.of_token(secret) is None
    with pytest.raises(UserNotFound):
        db.users.remove(ada.id)


def changes(db: SessionDB, ada: str) -> list[Callable[[], object]]:
    _, token = db.users.issue_token(ada, "one")
    return [
        lambda: db.users.create("Ben", by="x"),
        lambda: db.users.change(ada, UserChanges(name="Eda"), by="x"),
        lambda: db.users.disable(ada, by="x"),
        lambda: db.users.enable(ada, by="x"),
        lambda: db.users.issue_token(ada, "two", by="x"),
        lambda: db.users.issue_token(ada, "", 60, "sign-in", by="x"),
        lambda: db.users.revoke_token(token.id, by="x"),
        lambda: db.users.link_identity(ada, "i", "s", by="x"),
        lambda: db.users.unlink_identity("i", "s", by="x"),
        lambda: db.users.invite("user", 60, by="x"),
        lambda: db.users.remove(ada, by="x"),
    ]


def test_each_change_is_one_entry_of_the_log_with_who_made_it(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    told = []
    for change in changes(db, ada.id):
        before = len(db.audit.list())
        change()
        entries = db.audit.list()
        assert len(entries) == before + 1
        assert entries[0].actor == "x"
        told.append(entries[0].action)
    assert told == [
        *("user.created", "user.changed", "user.disabled", "user.enabled", "token.issued", "sign-in"),
        *("token.revoked", "identity.linked", "identity.unlinked", "invited", "user.removed"),
    ]
    about = db.audit.list(about=ada.scope)
    assert {each.target for each in about} == {ada.scope}
    assert [each.id for each in db.audit.list(limit=2)] == [each.id for each in db.audit.list()][:2]
    assert db.audit.list(before=2)[0].id == 1


def test_a_refused_change_leaves_no_entry(db: SessionDB) -> None:
    db.users.create("Ada")
    before = db.audit.list()
    with pytest.raises(UserExists):
        db.users.create("ada")
    with pytest.raises(InvitationInvalid):
        db.users.accept("no", "Ben")
    assert db.audit.list() == before


def test_the_log_keeps_the_newest_entries(db: SessionDB, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "KEPT_ENTRIES", 3)
    for number in range(6):
        db.audit.record("installation", "sign-in.refused", detail=f"{number}\0{'x' * 5000}")
    assert [each.detail[0] for each in db.audit.list()] == ["5", "4", "3"]
    for number in range(6):
        db.audit.record("user/x", "sign-in", detail=str(number))
    assert [each.detail[0] for each in db.audit.list()] == ["5", "4", "3", "5", "4", "3"]
    assert all(len(each.detail) <= audit_log.LONGEST_DETAIL for each in db.audit.list())


def test_turns_and_messages_that_wait_count_and_a_deletion_takes_none_away(database: Database) -> None:
    db = database.open()
    ada = db.users.create("Ada")
    db.create_session("s", source="web", scope=ada.scope)
    db.create_session("o", source="web")
    completed_turn(db, "s", providers=[])
    completed_turn(db, "o", providers=[])
    db.inbox.put("s", user("waits"))
    assert db.turns.turns_begun(ada.scope, 60) == 2
    db.delete_session("s", force=True)
    assert db.turns.turns_begun(ada.scope, 60) == 1
    assert db.turns.turns_begun("", 60) == 1
    database.clock.advance(61)
    assert db.turns.turns_begun(ada.scope, 60) == 0


def test_a_changed_password_signs_every_other_browser_out(db: SessionDB) -> None:
    ada = db.users.create("Ada")
    db.users.set_password_hash(ada.id, "$argon")
    assert not db.users.change_password_hash(ada.id, "another", "$new", kept_token="")
    assert db.users.password_hash(ada.id) == "$argon"
    _, here = db.users.issue_token(ada.id, "here", 60, "sign-in")
    _, there = db.users.issue_token(ada.id, "there", 60, "sign-in")
    _, phone = db.users.issue_token(ada.id, "phone")
    assert db.users.change_password_hash(ada.id, "$argon", "$new", kept_token=here.id)
    ended = {each.id for each in db.users.tokens(ada.id) if each.revoked is not None}
    assert (db.users.password_hash(ada.id), ended & {here.id, there.id, phone.id}) == ("$new", {there.id})
