"""The gateway protocol of the tests' Discord: sessions, HELLO, IDENTIFY, RESUME, heartbeats, zlib-stream."""

import asyncio
import json
import zlib
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from tests.gateway.discord_world import Json, World

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT = 0, 1, 2, 6, 7
INVALID_SESSION, HELLO, HEARTBEAT_ACK = 9, 10, 11
AUTHENTICATION_FAILED, DISALLOWED_INTENTS = 4004, 4014
MESSAGE_CONTENT = 1 << 15
GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES = 1, 1 << 9, 1 << 12


@dataclass(eq=False)
class Connection:
    """A socket. Frames are of one zlib stream if the client asked for that."""

    socket: web.WebSocketResponse
    request: web.Request
    deflate: "zlib._Compress | None"

    async def send(self, payload: Json) -> None:
        text = json.dumps(payload)
        if self.deflate is None:
            await self.socket.send_str(text)
            return
        frame = self.deflate.compress(text.encode()) + self.deflate.flush(zlib.Z_SYNC_FLUSH)
        await self.socket.send_bytes(frame)

    def abort(self) -> None:
        if self.request.transport is not None:
            self.request.transport.abort()


@dataclass(eq=False)
class Session:
    """What a client can resume: every event since IDENTIFY."""

    id: str
    intents: int
    events: list[tuple[str, Json]] = field(default_factory=list)
    connection: Connection | None = None

    async def dispatch(self, name: str, payload: Json) -> None:
        self.events.append((name, payload))
        await self.send(len(self.events))

    @property
    def is_connected(self) -> bool:
        return self.connection is not None and not self.connection.socket.closed

    async def send(self, sequence: int) -> None:
        if self.connection is not None and self.is_connected:
            name, payload = self.events[sequence - 1]
            frame = {"op": DISPATCH, "t": name, "s": sequence, "d": payload}
            try:
                await self.connection.send(frame)
            except ConnectionError:
                self.connection = None


class Sessions:
    """All sessions of the bot. `has_message_content` is a switch on its page at Discord."""

    def __init__(self, world: World, token: str) -> None:
        self.has_message_content = True
        self.sessions: dict[str, Session] = {}
        self.connections: set[Connection] = set()
        self.identified = 0
        self.resumed = 0
        self.heartbeats = 0
        self.hello_gate = asyncio.Event()
        """While it is not set, a new connection gets no greeting."""
        self.hello_gate.set()
        self.connected = asyncio.Event()
        self.left = asyncio.Event()
        """Set when a connection has ended."""
        self._world = world
        self._token = token
        self._reordered: list[tuple[str, Json]] | None = None

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        is_stream = request.query.get("compress") == "zlib-stream"
        connection = Connection(socket, request, zlib.compressobj() if is_stream else None)
        self.connections.add(connection)
        self.connected.set()
        try:
            await self.hello_gate.wait()
            await connection.send({"op": HELLO, "d": {"heartbeat_interval": 41_250}})
            async for frame in socket:
                if frame.type in {WSMsgType.TEXT, WSMsgType.BINARY}:
                    await self._receive(connection, json.loads(frame.data))
        except ConnectionError:
            pass
        finally:
            self.connections.discard(connection)
            self.left.set()
        return socket

    async def dispatch(self, name: str, payload: Json) -> None:
        """Deliver to every session that wants it; a session without a socket gets it when it resumes."""
        if self._reordered is not None:
            self._reordered.append((name, payload))
            return
        is_direct = "guild_id" not in payload
        needed = DIRECT_MESSAGES if is_direct else GUILD_MESSAGES
        for session in list(self.sessions.values()):
            if name != "MESSAGE_CREATE" or session.intents & needed:
                await session.dispatch(name, payload)

    def hold(self) -> None:
        """Keep the events back until `deliver_reversed`."""
        self._reordered = []

    def take_held(self) -> list[tuple[str, Json]]:
        """Events that were held; those that come now are delivered before them."""
        held, self._reordered = self._reordered or [], None
        return held

    async def deliver_reversed(self) -> None:
        for name, payload in reversed(self.take_held()):
            await self.dispatch(name, payload)

    async def deliver_again(self) -> None:
        """Deliver to who is connected each message and each press once more, however often it came before."""
        for session in [each for each in self.sessions.values() if each.is_connected]:
            spoken = ("MESSAGE_CREATE", "INTERACTION_CREATE")
            once = {payload["id"]: (name, payload) for name, payload in session.events if name in spoken}
            for name, payload in once.values():
                await session.dispatch(name, payload)

    async def kick(self, code: int | None = None) -> None:
        """Break every connection: without a code as a broken line does."""
        for connection in list(self.connections):
            if code is None:
                connection.abort()
            else:
                await connection.socket.close(code=code)

    async def ask_to_reconnect(self) -> None:
        """As Discord does every few hours, to empty a host."""
        for connection in list(self.connections):
            await connection.send({"op": RECONNECT, "d": None})

    def forget(self) -> None:
        """No session can be resumed any more."""
        self.sessions.clear()

    async def close(self) -> None:
        for connection in list(self.connections):
            connection.abort()

    async def _receive(self, connection: Connection, frame: Json) -> None:
        if frame["op"] == HEARTBEAT:
            self.heartbeats += 1
            await connection.send({"op": HEARTBEAT_ACK})
        elif frame["op"] == IDENTIFY:
            await self._identify(connection, frame["d"])
        elif frame["op"] == RESUME:
            await self._resume(connection, frame["d"])

    async def _identify(self, connection: Connection, asked: Json) -> None:
        if asked["token"] != self._token:
            await connection.socket.close(code=AUTHENTICATION_FAILED, message=b"Authentication failed.")
            return
        if asked["intents"] & MESSAGE_CONTENT and not self.has_message_content:
            await connection.socket.close(code=DISALLOWED_INTENTS, message=b"Disallowed intent(s).")
            return
        self.identified += 1
        session = Session(self._world.new_id(), asked["intents"], connection=connection)
        self.sessions[session.id] = session
        ready = {
            "v": 10,
            "user": self._world.bot,
            "guilds": [{"id": self._world.guild, "unavailable": True}],
            "session_id": session.id,
            "resume_gateway_url": f"ws://{connection.request.host}/gateway",
            "application": {"id": self._world.bot["id"], "flags": 0},
            "shard": asked.get("shard", [0, 1]),
        }
        await session.dispatch("READY", ready)

    async def _resume(self, connection: Connection, asked: Json) -> None:
        session = self.sessions.get(asked["session_id"])
        if session is None or asked["token"] != self._token:
            await connection.send({"op": INVALID_SESSION, "d": False})
            return
        self.resumed += 1
        session.connection = connection
        for sequence in range(asked["seq"] + 1, len(session.events) + 1):
            await session.send(sequence)
        await session.dispatch("RESUMED", {})
