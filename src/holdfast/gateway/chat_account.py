"""`ChatAccount`: the life of one account on one platform: recover, catch up, then accept.

One process at a time serves an account, under its lease; another waits and takes over. What the platform
delivers is stored before it is acknowledged. What is to be sent comes from the ledger alone.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from holdfast.core.clock import SystemClock
from holdfast.core.contract import Clock
from holdfast.core.error_text import error_words
from holdfast.core.errors import HoldfastError, HostClosed, LeaseLost, Retryable, StoreFailure
from holdfast.core.events import TURN_ENDS, Event
from holdfast.core.settings import GatewaySettings
from holdfast.gateway.access import AccessControl
from holdfast.gateway.chat_commands import COMMANDS
from holdfast.gateway.contract import (
    Adapter,
    Batch,
    ChatPlatformError,
    Identity,
    SignInRefused,
    SlowDown,
    TakenElsewhere,
    Unreachable,
)
from holdfast.gateway.event_codec import to_received
from holdfast.gateway.event_router import EventRouter, RouterHelpers
from holdfast.gateway.incoming_files import IncomingFiles
from holdfast.gateway.live_turns import LiveTurns
from holdfast.gateway.part_delivery import PartDelivery, PlatformCalls
from holdfast.gateway.post_bodies import PostBodies
from holdfast.gateway.post_sender import PostSender
from holdfast.gateway.presses import Presses
from holdfast.gateway.rate_budget import RateBudget
from holdfast.gateway.schedule_reports import ScheduleReports
from holdfast.host import SessionHost
from holdfast.host.chat_ledger import ChatLedger, ServedAccount

logger = logging.getLogger(__name__)

AccountState = Literal["waiting", "connecting", "catching up", "connected", "unreachable", "refused"]
CLAIM_SECONDS = 2.0
"""How often an account that another process holds is asked for."""
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """What all accounts of a gateway share."""

    host: SessionHost
    settings: GatewaySettings
    workspace_of: Callable[[str], Path]
    """The folder in which the agent works for a scope; made if it is not there."""
    clock: Clock = field(default_factory=SystemClock)


@dataclass(slots=True)
class AccountHealth:
    """How an account stands, for people to read."""

    state: AccountState = "connecting"
    detail: str = ""
    identity: Identity | None = None


class ChatAccount:
    """Serves one account with a host. `run` ends only when the platform refuses the credentials."""

    def __init__(self, name: str, adapter: Adapter, parts: GatewayParts) -> None:
        self.name = name
        self.health = AccountHealth()
        self.answered = asyncio.Event()
        """Set once the platform has let the account in and the catch-up is done, or has refused it."""
        self.waited = asyncio.Event()
        """Set once another process was found to serve the account."""
        self._adapter = adapter
        self._parts = parts
        self._service: AccountService | None = None
        parts.host.chats.serve(name, self._standing)

    def _standing(self) -> ServedAccount:
        identity = self.health.identity
        return ServedAccount(self.health.state, self.health.detail, identity.name if identity else "")

    def note(self, event: Event) -> None:
        """An event of the host; must not wait."""
        if self._service is not None:
            self._service.note(event)

    async def run(self) -> None:
        """Serve the account until cancelled, as often as its lease is to be had."""
        delay = FIRST_DELAY
        try:
            while True:
                try:
                    await self._serve_once()
                    delay = FIRST_DELAY
                except SignInRefused as refusal:
                    self._note("refused", error_words(refusal))
                    logger.warning("chat.sign_in_refused", extra={"account": self.name})
                    return
                except HostClosed:
                    raise
                except (ChatPlatformError, StoreFailure, Retryable) as cause:
                    self._note("unreachable", error_words(cause))
                    await asyncio.sleep(FIRST_DELAY)
                except Exception as fault:
                    # An adapter of somebody else may raise anything; the other accounts go on.
                    logger.exception("chat.account_failed", extra={"account": self.name})
                    delay = FIRST_DELAY if self.health.state == "connected" else delay
                    self._note("unreachable", f"a fault ({_name_of(fault)}); the log has the details")
                    await asyncio.sleep(delay)
                    delay = min(LONGEST_DELAY, delay * 2)
        finally:
            await self._adapter.close()

    async def _serve_once(self) -> None:
        """Take the account's lease and serve it, until the lease is lost or something fails."""
        ledger = await self._claim()
        try:
            await self._serve(ledger)
        except LeaseLost:
            logger.warning("chat.account_lost", extra={"account": self.name})
        finally:
            self._service = None
            with suppress(HoldfastError):
                await ledger.release()

    async def _claim(self) -> ChatLedger:
        while (ledger := await self._parts.host.chats.claim(self.name)) is None:
            self._note("waiting", "another process serves this account")
            self.waited.set()
            await asyncio.sleep(CLAIM_SECONDS)
        return ledger

    async def _serve(self, ledger: ChatLedger) -> None:
        self._note("connecting", "")
        self.health.identity = await self._connect()
        service = AccountService(self._adapter, ledger, self._parts)
        self._service = service
        with suppress(ChatPlatformError):
            await self._adapter.set_commands(COMMANDS)
        first: HoldfastError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._receive(service, ledger), name=f"{self.name} receives")
                tasks.create_task(service.router.run(), name=f"{self.name} routes")
                tasks.create_task(service.sender.run(), name=f"{self.name} sends")
                tasks.create_task(_keep_watch(ledger), name=f"{self.name} watches its lease")
        except* HoldfastError as failures:
            first = _first(failures)
        finally:
            service.close()
        if first is not None:
            # Not raised above: Python before 3.11.4 puts what an `except*` raises into a group.
            raise first

    async def _connect(self) -> Identity:
        delay = FIRST_DELAY
        while True:
            try:
                return await self._adapter.connect()
            except SignInRefused:
                raise
            except ChatPlatformError as cause:
                self._note("unreachable", error_words(cause))
                await asyncio.sleep(_wait(cause, delay))
                delay = min(LONGEST_DELAY, delay * 2)

    async def _receive(self, service: "AccountService", ledger: ChatLedger) -> None:
        delay = FIRST_DELAY
        while True:
            self._note("catching up", "")
            cursors = await ledger.of_account(ledger.events.cursors)
            try:
                is_live = False
                async with aclosing(self._adapter.receive(cursors)) as batches:
                    async for batch in batches:
                        await self._store(service, ledger, batch, live=is_live)
                        if batch.caught_up and not is_live:
                            is_live, delay = True, FIRST_DELAY
                            self._note("connected", "")
                            service.router.accept()
                raise Unreachable("the connection ended")
            except SignInRefused:
                raise
            except TakenElsewhere as cause:
                self._note("unreachable", f"{error_words(cause)}. Another program uses the same credentials.")
                await asyncio.sleep(LONGEST_DELAY / 2)
            except ChatPlatformError as cause:
                self._note("unreachable", error_words(cause))
                logger.info("chat.unreachable", extra={"account": self.name, "cause": error_words(cause)})
                await asyncio.sleep(_wait(cause, delay))
                delay = min(LONGEST_DELAY, delay * 2)

    async def _store(
        self, service: "AccountService", ledger: ChatLedger, batch: Batch, *, live: bool
    ) -> None:
        rows = [to_received(each) for each in batch.events]
        if rows or batch.cursors:
            new = await ledger.under_lease(ledger.events.receive, ledger.account, rows, batch.cursors)
            service.router.received([batch.events[number] for number in new], live=live)
        await batch.acknowledge()

    def _note(self, state: AccountState, detail: str) -> None:
        self.health.state, self.health.detail = state, detail
        if state in ("connected", "refused"):
            self.answered.set()


class AccountService:
    """What works for an account while this process holds it."""

    def __init__(self, adapter: Adapter, ledger: ChatLedger, parts: GatewayParts) -> None:
        host, settings, clock = parts.host, parts.settings, parts.clock
        self.access = AccessControl(ledger, settings)
        calls = PlatformCalls(adapter, RateBudget(adapter.traits, clock))
        delivery = PartDelivery(ledger, calls, clock)
        self._bodies = PostBodies(adapter, settings.messages_before_file(ledger.account))
        self._live = LiveTurns(ledger, calls, delivery, self._bodies, clock, preview=settings.preview)
        reports = ScheduleReports(host, ledger)
        self.sender = PostSender(ledger, self._bodies, delivery, self._live.lock_of, reports.step)
        self._files = IncomingFiles(adapter, parts.workspace_of, settings)
        presses = Presses(host, ledger, adapter, clock)
        helpers = RouterHelpers(self.access, presses, self._files, self.sender.wake, self._live.show_queued)
        self.router = EventRouter(host, ledger, settings, clock, helpers)

    def note(self, event: Event) -> None:
        """An event of the host: a turn began, grew, asked or ended."""
        self._live.note(event)
        if type(event).__name__ in WAKES:
            self.sender.wake()
        if type(event).__name__ in ASKS:
            self.router.wake()
        if isinstance(event, TURN_ENDS):
            self.router.turn_ended()

    def close(self) -> None:
        self._live.close()
        self._files.close()
        self._bodies.close()


ASKS = frozenset({"ApprovalAsked", "QuestionAsked"})
"""A press that came before its question was asked again can be answered now."""
WAKES = ASKS | {"TurnCompleted", "TurnFailed", "TurnInterrupted", "AskClosed"}


async def _keep_watch(ledger: ChatLedger) -> None:
    """Raise `LeaseLost` soon after it is lost: who has nothing to store would go on receiving."""
    while True:
        await asyncio.sleep(CLAIM_SECONDS)
        ledger.require()


def _wait(cause: ChatPlatformError, delay: float) -> float:
    return cause.seconds if isinstance(cause, SlowDown) else delay


def _first(failures: BaseExceptionGroup[HoldfastError]) -> HoldfastError:
    """Of several failures the one to act on."""
    found = [each for each in _flat(failures) if isinstance(each, HoldfastError)]
    return next((each for each in found if isinstance(each, LeaseLost | SignInRefused)), found[0])


def _name_of(fault: Exception) -> str:
    """What kind of fault it is; its text may hold what nobody should read."""
    first = _flat(fault)[0] if isinstance(fault, BaseExceptionGroup) else fault
    return type(first).__name__


def _flat(failures: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    flat: list[BaseException] = []
    for each in failures.exceptions:
        flat += _flat(each) if isinstance(each, BaseExceptionGroup) else [each]
    return flat
