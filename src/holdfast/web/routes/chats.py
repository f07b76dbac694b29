"""`/api/chats`: the accounts on chat platforms, what could not be delivered there, and who may talk."""

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, Field

from holdfast.host.chat_ledger import ChatAccountStatus
from holdfast.sessions.chat_people import Role
from holdfast.sessions.chat_places import ChatPlace
from holdfast.sessions.chat_posts import ChatPost
from holdfast.web.bodies import StrictBody
from holdfast.web.contract import HostDep
from holdfast.web.problems import ProblemRaised, error_responses
from holdfast.web.views import ChatPlaceView, StoreTime, View

router = APIRouter(prefix="/api/chats", tags=["chats"], responses=error_responses(422))

SHOWN_POSTS = 100
PREVIEW = 300

PostId = Annotated[int, Path(ge=0, le=2**53)]
Account = Annotated[str, Path(min_length=1, max_length=200)]
Person = Annotated[
    str, Path(min_length=1, max_length=1000, description="the platform's own id of the person")
]
RoleField = Annotated[
    Role,
    Field(
        description="owner: as in the terminal; user: own conversations, memory and files; "
        "guest: no commands, no files; blocked: nothing"
    ),
]


class FailedPostView(BaseModel):
    """Something for a chat that could not be delivered. It waits for `retry` or `drop`."""

    id: int
    kind: str = Field(description="answer, notice, ask or file")
    text: str = Field(description="how it begins")
    error: str
    attempts: int
    at: int
    session_id: str | None
    place: ChatPlaceView | None


class PersonView(View):
    """A person who is known on an account."""

    account: str
    person: str = Field(description="the platform's own id; only this counts")
    name: str
    role: Role
    at: StoreTime = Field(validation_alias="added")


class PairingView(View):
    """A stranger who asks to be let in."""

    code: str
    person: str
    name: str
    expires_at: StoreTime = Field(validation_alias="expires")


class ServingView(View):
    """How an account stands in this process."""

    state: str = Field(description="waiting, connecting, catching up, connected, unreachable or refused")
    detail: str
    name: str = Field(description="the bot's name on the platform")


class ChatAccountView(BaseModel):
    """One account on a chat platform."""

    name: str
    platform: str = Field(description="empty: the settings of this server do not name the account")
    held: bool = Field(description="whether a process serves it now, here or elsewhere")
    serving: ServingView | None = Field(description="null: this server does not serve it")
    cursors: dict[str, str] = Field(
        description="how far it has received; the whole account under an empty name"
    )
    events: dict[str, int] = Field(description="how many events are in each state")
    posts: dict[str, int] = Field(description="how many posts are in each state")
    failed: list[FailedPostView] = Field(description="what could not be delivered: the first 100")
    people: list[PersonView]
    pairings: list[PairingView]


class ChatsView(BaseModel):
    accounts: list[ChatAccountView]


class ApprovalBody(StrictBody):
    role: RoleField = "user"


class PersonBody(StrictBody):
    role: RoleField
    name: Annotated[str, Field(max_length=200)] = Field(default="", description="empty: as it is")


@router.get("")
async def chats(host: HostDep) -> ChatsView:
    """Every account: whether it is served, what waits, what could not be delivered, and who may talk."""
    return ChatsView(accounts=[await _account(host, each) for each in await host.chats.accounts()])


@router.post("/posts/{post_id}/retry", status_code=204, responses=error_responses(404, 409))
async def retry(host: HostDep, post_id: PostId) -> None:
    """Send again what could not be delivered."""
    await host.chats(host.chats.posts.retry, post_id)


@router.post("/posts/{post_id}/drop", status_code=204, responses=error_responses(404, 409))
async def drop(host: HostDep, post_id: PostId) -> None:
    """Give up what could not be delivered."""
    await host.chats(host.chats.posts.drop, post_id)


@router.post("/pairings/{code}/approve", responses=error_responses(404))
async def approve(
    host: HostDep, code: Annotated[str, Path(min_length=1, max_length=100)], body: ApprovalBody | None = None
) -> PersonView:
    """Let in the stranger who has this code."""
    role = (body or ApprovalBody()).role
    person = await host.chats(host.chats.people.approve, code.strip().upper(), role)
    if person is None:
        raise ProblemRaised(
            404,
            "PairingNotFound",
            "no stranger has this code now; a code is for an hour",
            "List who waits with GET /api/chats. The stranger gets a new code by writing again.",
        )
    return PersonView.of(person)


@router.put("/{account}/people/{person:path}", responses=error_responses(404))
async def put_person(host: HostDep, account: Account, person: Person, body: PersonBody) -> PersonView:
    """Let a person in by the platform's own id, or change their role."""
    if account not in await host.chats.accounts():
        raise ProblemRaised(
            404,
            "ChatAccountNotFound",
            f"there is no account {account!r}",
            "List the accounts with GET /api/chats; `holdfast gateway setup` adds one.",
        )
    await host.chats(host.chats.people.put, account, person, body.role, name=body.name)
    return PersonView.of(await host.chats(host.chats.people.get, account, person))


@router.delete("/{account}/people/{person:path}", status_code=204, responses=error_responses(404))
async def remove_person(host: HostDep, account: Account, person: Person) -> None:
    """Make a person a stranger again."""
    if not await host.chats(host.chats.people.remove, account, person):
        raise ProblemRaised(
            404,
            "PersonNotFound",
            f"{person!r} is not known on {account!r}",
            "List who is known with GET /api/chats.",
        )


async def _account(host: HostDep, name: str) -> ChatAccountView:
    now: ChatAccountStatus = await host.chats.status(name)
    shown = now.failed[:SHOWN_POSTS]
    places = await host.chats.places_of_rooms(each.room_id for each in shown)
    platform = host.chats.platforms.get(name, "")
    return ChatAccountView(
        name=name,
        platform=platform,
        held=now.held,
        serving=ServingView.of(now.serving) if now.serving else None,
        cursors=now.cursors,
        events=now.events,
        posts=now.posts,
        failed=[_failed(each, places.get(each.room_id), platform) for each in shown],
        people=[PersonView.of(each) for each in now.people],
        pairings=[PairingView.of(each) for each in now.pairings],
    )


def _failed(post: ChatPost, place: ChatPlace | None, platform: str) -> FailedPostView:
    return FailedPostView(
        id=post.id,
        kind=post.kind,
        text=_gist(post.body),
        error=post.error,
        attempts=post.attempts,
        at=post.created // 1000,
        session_id=post.session_id,
        place=ChatPlaceView.at(place, platform) if place else None,
    )


def _gist(body: dict[str, Any]) -> str:
    """How a post begins: an answer or a notice, else what is asked, else the file's name."""
    found = next((str(body[key]) for key in ("text", "question", "subject", "file") if body.get(key)), "")
    return " ".join(found.split())[:PREVIEW]
