"""A store with an account, as each operation on accounts wants to find it."""

from collections.abc import Callable, Mapping

from holdfast.sessions import SessionDB
from holdfast.sessions.user_records import UserChanges
from tests.sessions.prepared_store import Ask, Prepared
from tests.sessions.store_fixtures import completed_turn


def account(db: SessionDB, name: str = "Ada") -> str:
    return db.users.create(name, "user", daily_turns=5).id


def disabled(prepared: Prepared) -> Ask:
    made = account(prepared.db)
    prepared.db.users.disable(made)
    return lambda db: db.users.enable(made)


def removed(prepared: Prepared) -> Ask:
    made = account(prepared.db)
    prepared.db.users.issue_token(made, "phone")
    prepared.db.users.link_identity(made, "https://sso", "ada")
    return lambda db: db.users.remove(made)


def used(prepared: Prepared) -> Ask:
    secret, _ = prepared.db.users.issue_token(account(prepared.db), "phone")
    return lambda db: db.users.of_token(secret)


def revoked(prepared: Prepared) -> Ask:
    _, token = prepared.db.users.issue_token(account(prepared.db), "phone")
    return lambda db: db.users.revoke_token(token.id)


def password_changed(prepared: Prepared) -> Ask:
    made = account(prepared.db)
    prepared.db.users.set_password_hash(made, "old")
    for label in ("kept", "other"):
        prepared.db.users.issue_token(made, label, 60, "sign-in")
    return lambda db: db.users.change_password_hash(made, "old", "new", kept_token="")


def unlinked(prepared: Prepared) -> Ask:
    prepared.db.users.link_identity(account(prepared.db), "https://sso", "ada")
    return lambda db: db.users.unlink_identity("https://sso", "ada")


def accepted(prepared: Prepared) -> Ask:
    code = prepared.db.users.invite("guest", 60)
    return lambda db: db.users.accept(code, "Ben")


def measured(prepared: Prepared) -> Ask:
    scope = prepared.db.users.create("Ada").scope
    prepared.db.create_session("hers", source="web", scope=scope)
    completed_turn(prepared.db, "hers")
    return lambda db: db.users.measure_storage(scope)


def of_account(change: Callable[[SessionDB, str], object]) -> Callable[[Prepared], Ask]:
    """A change of an account that is there."""

    def prepare(prepared: Prepared) -> Ask:
        made = account(prepared.db)
        return lambda db: change(db, made)

    return prepare


ACCOUNT_OPERATIONS: Mapping[str, Callable[[Prepared], Ask]] = {
    "create_user": lambda _: account,
    "change_user": of_account(lambda db, made: db.users.change(made, UserChanges(role="admin"))),
    "disable_user": of_account(lambda db, made: db.users.disable(made)),
    "enable_user": disabled,
    "remove_user": removed,
    "issue_user_token": of_account(lambda db, made: db.users.issue_token(made, "phone", 60)),
    "note_token_used": used,
    "revoke_user_token": revoked,
    "set_user_password": of_account(lambda db, made: db.users.set_password_hash(made, "hash")),
    "change_user_password": password_changed,
    "link_user_identity": of_account(lambda db, made: db.users.link_identity(made, "https://sso", "a")),
    "link_identity_by_name": of_account(lambda db, _: db.users.link_by_name("proxy", "Ada")),
    "unlink_user_identity": unlinked,
    "invite_user": lambda _: lambda db: db.users.invite("user", 60),
    "accept_invitation": accepted,
    "measure_storage": measured,
    "record_audit": lambda _: lambda db: db.audit.record("installation", "sign-in.refused"),
}
