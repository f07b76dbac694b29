"""`/api/users` and `/api/invitations`: accounts, their tokens, and the audit log, for admins.

An account sees to its own tokens. An admin manages accounts and sees nobody else's conversations. A secret is
in one answer, and never again.
"""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, BeforeValidator, Field

from holdfast.core.errors import UserNotFound
from holdfast.core.secret import Secret
from holdfast.host import SessionHost
from holdfast.sessions.audit_log import AuditEntry, AuditLog
from holdfast.sessions.user_records import MOST_PER_DAY, MOST_STORAGE, User, UserChanges, UserRole, UserToken
from holdfast.sessions.users import Users
from holdfast.web.bodies import StrictBody
from holdfast.web.contract import HostDep
from holdfast.web.principal import Principal, PrincipalDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.routes.sign_in import client_of, count_attempt
from holdfast.web.sign_in.ways import SignInWays
from holdfast.web.views import StoreTime, View, milliseconds

router = APIRouter(prefix="/api", tags=["users"], responses=error_responses(422))

DAY = 86_400.0
UNCACHED = {"Cache-Control": "no-store"}
NameField = Annotated[str, Field(min_length=1, max_length=400)]
PerDay = Annotated[int, Field(ge=-1, le=MOST_PER_DAY, description="within 24 hours; -1: any number")]
Storage = Annotated[int, Field(ge=-1, le=MOST_STORAGE, description="in bytes; -1: any number")]
Moment = Annotated[int | None, BeforeValidator(lambda given: None if given is None else milliseconds(given))]
Days = Annotated[float, Field(gt=0, le=3_650)]


class UserView(View):
    """An account."""

    id: str
    name: str
    role: UserRole
    scope: str = Field(description="that of its conversations")
    daily_turns: int | None
    daily_tokens: int | None
    storage_limit: int | None = Field(description="in bytes")
    storage_used: int = Field(description="what its conversations kept a minute ago or less, in bytes")
    turns_used: int | None = Field(default=None, description="of the last 24 hours; null: not asked for")
    tokens_used: int | None = Field(default=None, description="the same")
    at: StoreTime = Field(validation_alias="created")
    disabled: bool

    @classmethod
    def shown(cls, user: User, used: tuple[int, int] | None = None) -> "UserView":
        turns, tokens = used or (None, None)
        return cls(
            turns_used=turns,
            tokens_used=tokens,
            id=user.id,
            name=user.name,
            role=user.role,
            scope=user.scope,
            daily_turns=user.daily_turns,
            daily_tokens=user.daily_tokens,
            storage_limit=user.storage_limit,
            storage_used=user.storage_used,
            created=user.created,
            disabled=user.disabled is not None,
        )


class UsersView(BaseModel):
    items: list[UserView]


class TokenView(View):
    """A token, without its secret."""

    id: str
    label: str
    kind: Literal["token", "sign-in"]
    at: StoreTime = Field(validation_alias="created")
    last_used: Moment
    expires: Moment
    revoked: Moment


class TokensView(BaseModel):
    items: list[TokenView]


class IssuedView(BaseModel):
    """A token that was just made."""

    secret: str = Field(description="it can't be read again")
    token: TokenView


class JoinedView(BaseModel):
    """An account that was just made, and its first token."""

    user: UserView
    secret: str = Field(description="it can't be read again")


class InvitationView(BaseModel):
    code: str = Field(description="for POST /api/invitations/CODE; it can't be read again")
    role: UserRole


class AuditView(View):
    id: int
    at: StoreTime
    actor: str
    action: str
    target: str
    detail: str


class AuditPage(BaseModel):
    items: list[AuditView]


class NewUserBody(StrictBody):
    name: NameField
    role: UserRole = "user"
    daily_turns: PerDay | None = None
    daily_tokens: PerDay | None = None
    storage_limit: Storage | None = None
    token_label: Annotated[str, Field(max_length=200)] = ""


class ChangesBody(StrictBody):
    name: NameField | None = None
    role: UserRole | None = None
    daily_turns: PerDay | None = None
    daily_tokens: PerDay | None = None
    storage_limit: Storage | None = None
    disabled: bool | None = None


class TokenBody(StrictBody):
    label: Annotated[str, Field(max_length=200)] = ""
    days: Days | None = Field(default=None, description="for how long it counts; null: until it is revoked")


class InviteBody(StrictBody):
    role: UserRole = "user"
    days: Days = 7.0


class JoinBody(StrictBody):
    name: NameField
    password: Annotated[str, Field(max_length=1000)] | None = Field(
        default=None, description="for signing in on the page, of 10 characters or more; null: none"
    )


@router.get("/users")
async def list_users(
    host: HostDep,
    use: Annotated[bool, Query(description="whether to say what each used in 24 hours")] = False,
) -> UsersView:
    """All accounts, by name."""
    found = await host.accounts.users(Users.list)
    used = await host.accounts.used([each.scope for each in found]) if use else {}
    return UsersView(items=[UserView.shown(each, used.get(each.scope)) for each in found])


@router.post("/users", status_code=201, responses=error_responses(409))
async def add_user(
    host: HostDep, principal: PrincipalDep, response: Response, body: NewUserBody
) -> JoinedView:
    """Add an account, with a token that lets it in."""
    made = await host.accounts.users(
        Users.create,
        body.name,
        body.role,
        daily_turns=body.daily_turns,
        daily_tokens=body.daily_tokens,
        storage_limit=body.storage_limit,
        by=principal.actor,
    )
    secret, _ = await host.accounts.users(Users.issue_token, made.id, body.token_label, by=principal.actor)
    response.headers.update(UNCACHED)
    return JoinedView(user=UserView.shown(made), secret=secret)


@router.patch("/users/{user_id}", responses=error_responses(404, 409))
async def change_user(host: HostDep, principal: PrincipalDep, user_id: str, body: ChangesBody) -> UserView:
    """Change an account's name, role or limits, or disable or enable it."""
    if principal.user is not None and principal.user.id == user_id and body.disabled:
        raise ProblemRaised(
            422, "Yourself", "an admin can't disable its own account. Nothing was changed.", "Ask another."
        )
    wanted = UserChanges(body.name, body.role, body.daily_turns, body.daily_tokens, body.storage_limit)
    if wanted != UserChanges():
        await host.accounts.users(Users.change, user_id, wanted, by=principal.actor)
    if body.disabled is not None:
        switch = Users.disable if body.disabled else Users.enable
        await host.accounts.users(switch, user_id, by=principal.actor)
    return UserView.shown(await _user(host, user_id))


@router.delete("/users/{user_id}", status_code=204, responses=error_responses(404, 409))
async def remove_user(host: HostDep, principal: PrincipalDep, user_id: str) -> None:
    """Remove an account that has no conversations."""
    await host.accounts.users(Users.remove, user_id, by=principal.actor)


@router.get("/users/{user_id}/tokens", responses=error_responses(404))
async def list_tokens(host: HostDep, user_id: str) -> TokensView:
    """The tokens of an account, those that count no more included."""
    await _user(host, user_id)
    found = await host.accounts.users(Users.tokens, user_id)
    return TokensView(items=[_token(each) for each in found])


@router.post("/users/{user_id}/tokens", status_code=201, responses=error_responses(403, 404, 409))
async def issue_token(
    host: HostDep, principal: PrincipalDep, response: Response, user_id: str, body: TokenBody
) -> IssuedView:
    """Another token of one's own account; with the installation's token, of any.

    Its secret is shown once, so a repeated request makes one more: after a lost answer, revoke the one that
    nobody has.
    """
    await _user(host, user_id)
    _require_own(principal, user_id)
    seconds = None if body.days is None else body.days * DAY
    secret, issued = await host.accounts.users(
        Users.issue_token, user_id, body.label, seconds, by=principal.actor
    )
    response.headers.update(UNCACHED)
    return IssuedView(secret=secret, token=_token(issued))


@router.delete("/users/{user_id}/tokens/{token_id}", status_code=204, responses=error_responses(404))
async def revoke_token(host: HostDep, principal: PrincipalDep, user_id: str, token_id: str) -> None:
    """End a token. It can count for two seconds more, in other processes and in this one."""
    if not await host.accounts.users(Users.revoke_token, token_id, user_id=user_id, by=principal.actor):
        raise ProblemRaised(
            404, "TokenNotFound", "the account has no such token that counts", "GET …/tokens lists them."
        )


@router.post("/users/invitations", status_code=201)
async def invite(
    host: HostDep, principal: PrincipalDep, response: Response, body: InviteBody
) -> InvitationView:
    """A code with which one person makes an account.

    It is shown once, so a repeated request makes one more; a code that nobody has runs out by itself.
    """
    code = await host.accounts.users(Users.invite, body.role, body.days * DAY, by=principal.actor)
    response.headers.update(UNCACHED)
    return InvitationView(code=code, role=body.role)


@router.get("/users/audit", responses=error_responses(404))
async def read_audit(
    host: HostDep,
    about: Annotated[str | None, Query(max_length=200, description="the id of an account")] = None,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """The audit log, the newest entry first."""
    scope = None if about is None else (await _user(host, about)).scope
    found = await host.accounts.audit(AuditLog.list, about=scope, before=before, limit=limit)
    return AuditPage(items=[_entry(each) for each in found])


@router.post(
    "/invitations/{code}",
    status_code=201,
    responses=error_responses(404, 409),
    openapi_extra={"security": []},
)
async def accept(
    request: Request, host: HostDep, response: Response, code: str, body: JoinBody
) -> JoinedView:
    """Make the account of an invitation. Needs no token: the code is the secret, and counts once."""
    ways: SignInWays = request.app.state.sign_in
    kept = None
    if body.password is not None:
        # Hashing takes work, so it is counted as an attempt before the code is looked at.
        count_attempt(ways, None, client_of(request))
        kept = await ways.sign_ins.hash(Secret(body.password))
    made = await host.accounts.users(Users.accept, code, body.name, kept)
    if kept is not None:
        ways.attempts.succeeded(None, client_of(request))
    secret, _ = await host.accounts.users(Users.issue_token, made.id, "invitation", by=made.scope)
    response.headers.update(UNCACHED)
    return JoinedView(user=UserView.shown(made), secret=secret)


def _require_own(principal: Principal, user_id: str) -> None:
    """A token shows an account's conversations, so nobody else makes one; and none outlives a sign-in."""
    if principal.user is None:
        return
    if principal.user.id != user_id:
        raise ProblemRaised(
            403,
            "NotForAccounts",
            "an account makes tokens for itself alone. No token was made.",
            "Let the account make it, or who runs this installation: `holdfast users token NAME`.",
        )
    if principal.let_in_by == "sign-in":
        raise ProblemRaised(
            403,
            "SignInMakesNoTokens",
            "this browser's sign-in ends by itself, and a token would outlive it. No token was made.",
            "Make tokens with a token, or ask who runs the server.",
        )


async def _user(host: SessionHost, user_id: str) -> User:
    found = await host.accounts.users(Users.get, user_id)
    if found is None:
        raise UserNotFound(user_id)
    return found


def _token(token: UserToken) -> TokenView:
    return TokenView.of(token)


def _entry(entry: AuditEntry) -> AuditView:
    return AuditView.of(entry)
