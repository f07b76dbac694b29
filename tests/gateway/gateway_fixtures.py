"""A gateway on a chat platform in memory, with a host whose model answers what it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from holdfast.core.errors import ModelMissing
from holdfast.core.messages import text_of
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.chat_account import GatewayParts
from holdfast.gateway.contract import AdapterTraits, Place
from holdfast.gateway.gateway import Gateway
from holdfast.host import HostOptions, SessionHost
from holdfast.host.chat_ledger import ChatAccountStatus
from holdfast.models.contract import ListedModel, Model, ModelRequest, ModelTraits
from holdfast.sessions import SessionDB
from holdfast.testing import ScriptedModel
from holdfast.testing.chat_platform import ChatPlatform
from holdfast.testing.memory_platform import TRAITS, MemoryPlatform
from holdfast.tools.contract import Tool
from holdfast.wiring.chat_policies import ChatPolicies
from tests.host.host_fixtures import host_parts
from tests.polling import pauses

ACCOUNT = "test"
SETTINGS = GatewaySettings(debounce_s=0.0)
QUICK_TRAITS = replace(TRAITS, chat_seconds=0.0, account_per_second=10_000.0, edit_seconds=0.01)
OPTIONS = HostOptions(source="gateway", poll_seconds=0.02, shutdown_seconds=3.0, after_crash="resume")
SECONDS = 30.0
MODELS = ("large", "small")


def traits(**how: Any) -> AdapterTraits:  # noqa: ANN401
    return replace(QUICK_TRAITS, **how)


def echo(session_id: str) -> Model:
    """A model that says the last message of the person again."""

    def answer(request: ModelRequest) -> str:
        said = [text_of(each) for each in request.messages if each["role"] == "user"]
        return f"You said: {said[-1]}"

    return ScriptedModel([answer] * 1000)


class TwoModels:
    """The models that can be chosen."""

    async def names(self) -> tuple[str, list[str]]:
        return "a shelf", list(MODELS)

    async def details(self) -> tuple[str, list[ListedModel]]:
        return "a shelf", [ListedModel(name) for name in MODELS]

    async def check(self, name: str) -> ModelTraits:
        if name not in MODELS:
            raise ModelMissing(f"there is no {name}")
        return ModelTraits(name, 1000)

    async def switch(self, name: str) -> ModelTraits:
        raise AssertionError(f"{name} is chosen for one conversation, not for all")

    async def reload(self) -> ModelTraits:
        return await self.check(MODELS[0])

    async def prepare(self, name: str) -> None:
        pass

    async def tidy(self) -> None:
        pass


def a_host(
    db: SessionDB, script: Sequence[Any] | Callable[[str], Model] = echo, *, tools: Sequence[Tool] = ()
) -> SessionHost:
    """A host for a gateway; its store outlives it."""
    parts = host_parts(db, script, tools=tools, options=OPTIONS)
    policies = ChatPolicies(db.chat_people)
    return SessionHost(replace(parts, closes_store=False, scope_policy=policies, models=TwoModels()))


@asynccontextmanager
async def a_gateway(
    db: SessionDB,
    platform: ChatPlatform,
    script: Sequence[Any] | Callable[[str], Model] = echo,
    *,
    settings: GatewaySettings = SETTINGS,
    tools: Sequence[Tool] = (),
    folder: Path = Path("/nowhere"),
) -> AsyncIterator[tuple[Gateway, SessionHost]]:
    """A gateway that has caught up, until the end of the block."""
    async with a_host(db, script, tools=tools) as host:
        own = GatewayParts(host, settings, lambda scope: folder / (scope or "owner"))
        gateway = Gateway({ACCOUNT: platform.adapter()}, own)
        async with gateway.running():
            await answered(gateway)
            yield gateway, host


async def answered(gateway: Gateway, account: str = ACCOUNT) -> None:
    """Wait until the platform has let the account in and it has caught up, or was refused."""
    async with asyncio.timeout(SECONDS):
        await gateway.accounts[account].answered.wait()


def let_in(db: SessionDB, *people: str) -> None:
    """Make people of the platform in memory users of the account."""
    for person in people:
        db.chat_people.put(ACCOUNT, f"person-{person}", "user", name=person)


async def until_said(platform: MemoryPlatform, place: Place, *texts: str) -> None:
    """Wait until the bot has said these texts in the chat, one after another, and nothing else."""

    def said() -> list[str]:
        return [each.text for each in platform.seen(place) if each.by_bot]

    try:
        await platform.until(lambda: said() == list(texts), SECONDS)
    except TimeoutError:
        raise AssertionError(f"the bot said {said()}") from None


async def until_status(host: SessionHost, holds: Callable[[ChatAccountStatus], bool]) -> ChatAccountStatus:
    """Wait until the ledger of the account is as wanted."""
    async with asyncio.timeout(SECONDS):
        for pause in pauses():
            if holds(status := await host.chats.status(ACCOUNT)):
                return status
            await asyncio.sleep(pause)  # noqa: TID251 - polls under a deadline
    raise AssertionError("pauses have no end")
