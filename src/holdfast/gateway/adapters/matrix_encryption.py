"""Encrypted rooms: the keys of one device, by matrix-nio's cryptography (the extra `matrix-e2e`).

matrix-nio only keeps and uses the keys here; the calls and the receive loop are ours. It stores each key when
it gets it, so a key is on disk before the sync that brought it is acknowledged. Messages go to all devices of
a room's members. Devices are not verified: the homeserver is trusted to say whose they are and who sent what.
"""

import json
import logging
import uuid
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.core.distribution import install_command
from holdfast.gateway.adapters.matrix_api import MatrixApi, MatrixCredentials, path_of
from holdfast.gateway.adapters.matrix_events import Event, events_in, part, text
from holdfast.gateway.contract import ChatPlatformError, NotTaken, SendRefused, Unreachable

if TYPE_CHECKING:
    from nio.crypto import Olm

logger = logging.getLogger(__name__)

ONE_TIME_KEYS = "signed_curve25519"


class MatrixEncryption:
    """Used on one event loop, by one process: two would use the same key twice."""

    def __init__(self, api: MatrixApi, credentials: MatrixCredentials, folder: Path) -> None:
        self._api = api
        self._me = (credentials.user_id, credentials.device_id)
        self._folder = folder
        self._machine: Olm | None = None

    def open(self) -> "Olm":
        """Load the keys of the device, or make them; says so when the extra is not installed."""
        if self._machine is None:
            try:
                from nio.crypto import Olm
                from nio.store import SqliteStore
            except ImportError as cause:
                raise ChatPlatformError(
                    f"encrypted rooms need the extra matrix-e2e: {install_command('matrix-e2e')}"
                ) from cause
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._machine = Olm(*self._me, SqliteStore(*self._me, str(self._folder), database_name="keys.db"))
        return self._machine

    async def update(self, answer: Event) -> None:
        """Take what a sync brought: keys for rooms, changed devices, how many of our keys are left."""
        olm = self.open()
        for event in events_in(part(answer, "to_device"), "events"):
            self._take(event)
        count = part(answer, "device_one_time_keys_count").get(ONE_TIME_KEYS)
        olm.uploaded_key_count = count if isinstance(count, int) else None
        changed = part(answer, "device_lists").get("changed")
        if isinstance(changed, list):
            olm.add_changed_users({user for user in changed if user in olm.tracked_users})
        try:
            if olm.should_upload_keys:
                await self._upload()
            if olm.wedged_devices or olm.outgoing_to_device_messages:
                await self._repair()
        except SendRefused:
            # The server has other keys for this device: rooms without encryption still work.
            logger.warning("matrix.keys_refused", exc_info=True)

    def decrypted(self, room: str, event: Event) -> Event:
        """The event as its sender wrote it; as it is, when it can't be read."""
        from nio.events import Event as NioEvent
        from nio.events import MegolmEvent
        from nio.exceptions import EncryptionError

        try:
            parsed = NioEvent.parse_encrypted_event({**event, "room_id": room})
            if not isinstance(parsed, MegolmEvent):
                return event
            source = self.open().decrypt_megolm_event(parsed, room).source
        except EncryptionError as cause:
            logger.info("matrix.no_key", extra={"event": event.get("event_id"), "cause": str(cause)})
            return event
        except Exception:
            # Anyone may send anything here, and one message must not hold up the others.
            logger.warning("matrix.unreadable", exc_info=True, extra={"event": event.get("event_id")})
            return event
        return {**event, "type": text(source, "type"), "content": part(source, "content")}

    async def encrypted(
        self, room: str, members: AbstractSet[str], kind: str, content: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The content of an event that the devices of these members can read."""
        try:
            await self._share(room, members)
        except Unreachable as cause:
            # The message itself was not sent, and a key that arrives twice does no harm.
            raise NotTaken(str(cause)) from cause
        hidden: dict[str, Any] = self.open().group_encrypt(room, {"type": kind, "content": dict(content)})
        # Servers put threads and edits together, so they must see what belongs to what.
        return {**hidden, **{name: content[name] for name in ("m.relates_to",) if name in content}}

    def close(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.store.database.close()

    def _take(self, event: Event) -> None:
        from nio.events import ToDeviceEvent

        try:
            parsed = ToDeviceEvent.parse_event(dict(event))
            if parsed is not None:
                self.open().handle_to_device_event(parsed)
        except Exception:
            # Anyone may send anything here, and one message must not hold up the others.
            logger.warning("matrix.key_message_failed", exc_info=True, extra={"by": event.get("sender")})

    async def _upload(self) -> None:
        from nio.responses import KeysUploadResponse

        keys = self.open().share_keys()
        # What the server has may be used at once, so the secret halves are stored before.
        self.open().save_account()
        answer = await self._api.call("POST", path_of("keys", "upload"), keys)
        count = part(answer, "one_time_key_counts").get(ONE_TIME_KEYS)
        self.open().handle_response(KeysUploadResponse(0, count if isinstance(count, int) else 0))

    async def _query(self, users: AbstractSet[str]) -> None:
        from nio.responses import KeysQueryResponse

        asked: dict[str, object] = {"device_keys": {user: [] for user in users}}
        answer = await self._api.call("POST", path_of("keys", "query"), asked)
        self.open().handle_response(KeysQueryResponse(dict(part(answer, "device_keys")), {}))

    async def _claim(self, devices: Mapping[str, list[str]]) -> None:
        """Begin to talk with devices, each with a key of theirs that is used once."""
        from nio.responses import KeysClaimResponse

        asked = {user: dict.fromkeys(names, ONE_TIME_KEYS) for user, names in devices.items()}
        answer = await self._api.call("POST", path_of("keys", "claim"), {"one_time_keys": asked})
        self.open().handle_response(KeysClaimResponse(dict(part(answer, "one_time_keys")), {}))

    async def _share(self, room: str, members: AbstractSet[str]) -> None:
        """See to it that the room's key is with all devices of its members, and with no other one."""
        olm = self.open()
        unknown = {user for user in members if user not in olm.tracked_users} | olm.users_for_key_query
        if unknown:
            await self._query(unknown)
        missing = olm.get_missing_sessions(list(members))
        if missing:
            await self._claim(missing)
        wanted = {
            (user, device.id)
            for user in members
            for device in olm.device_store.active_user_devices(user)
            if (user, device.id) != self._me and olm.session_store.get(device.curve25519)
        }
        session = olm.outbound_group_sessions.get(room)
        if (
            session is not None
            and session.shared
            and not session.expired
            and session.users_shared_with == wanted
        ):
            return
        olm.outbound_group_sessions.pop(room, None)
        olm.create_outbound_group_session(room)
        session = olm.outbound_group_sessions[room]
        for devices, messages in olm.share_group_session_parallel(
            room, list(members), ignore_unverified_devices=True
        ):
            await self._to_devices("m.room.encrypted", messages)
            session.users_shared_with.update(devices)
        session.mark_as_shared()

    async def _repair(self) -> None:
        """Begin anew with devices whose messages could not be read, and send what this needs."""
        olm = self.open()
        from nio.responses import ToDeviceResponse

        if olm.wedged_devices:
            await self._claim(olm.get_users_for_key_claiming())
        for message in list(olm.outgoing_to_device_messages):
            await self._to_devices(message.type, message.as_dict())
            olm.handle_response(ToDeviceResponse(message))

    async def _to_devices(self, kind: str, messages: Mapping[str, Any]) -> None:
        await self._api.call("PUT", path_of("sendToDevice", kind, uuid.uuid4().hex), messages)


def encrypt_file(data: bytes) -> tuple[bytes, dict[str, Any]]:
    """The bytes to upload, and what is needed to read them."""
    from nio.crypto.attachments import encrypt_attachment

    hidden, keys = encrypt_attachment(data)
    return hidden, keys


def decrypt_file(data: bytes, keys: str) -> bytes:
    """A file as its sender had it; `keys` is the part of the message about it, as JSON."""
    try:
        from nio.crypto.attachments import decrypt_attachment
    except ImportError as cause:
        raise SendRefused("a file in an encrypted room needs the extra matrix-e2e") from cause
    from nio.exceptions import EncryptionError

    told = json.loads(keys)
    try:
        return bytes(
            decrypt_attachment(
                data, text(part(told, "key"), "k"), text(part(told, "hashes"), "sha256"), text(told, "iv")
            )
        )
    except EncryptionError as cause:
        raise SendRefused(f"the file can't be decrypted: {cause}") from cause
