"""`ServerConnection`: HTTP/1.1 on one socket, as uvicorn reads it with httptools, and stricter.

The head of a request has a limit. A request that another server could read as two requests is refused. A
client that sends its request too slowly, or does not read its answer, is disconnected after
the time that the server allows.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.process.listen_socket import full_answer, full_text
from holdfast.process.open_files import is_scarce

logger = logging.getLogger(__name__)

MOST_HEAD = 64 * 1024
"""The most bytes of a head, and of a body's framing between two pieces."""
LEAST_TAKEN = HIGH_WATER_LIMIT * 3 // 4
"""Bytes that a client must read of its answer within the patience, so that a paused writer goes on."""
VERSIONS = ("1.1", "1.0")
FULL_SECONDS = 2.0
"""How long a connection beyond the limit may take to send a request, so that it can be answered with 503."""
INVALID = "Invalid HTTP request received."
TOO_LARGE = (
    f"The head of a request may have {MOST_HEAD // 1024} KiB at most. Nothing was done. "
    "Send it again with fewer or shorter headers."
)


class ServerRefusal(Exception):
    """The bytes are not a request that this server answers."""

    def __init__(self, status: int = 400, said: str = INVALID) -> None:
        super().__init__(said)
        self.status = status
        self.said = said


class ServerConnection(HttpToolsProtocol):
    """One connection; `http_protocol` sets `patience` and `on_full`."""

    patience: float
    on_full: Callable[[], None]

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - as asyncio calls it
        super().connection_made(transport)
        self._full = is_scarce(transport.get_extra_info("socket").fileno())
        """Too few descriptors are left to serve this connection."""
        self._answering: Any = None
        """The cycle that is being answered; `cycle` is the one that was read last."""
        self._in_body = False
        self._unheard = 0
        """Bytes received since the last that belonged to a head or a body."""
        self._refusal: ServerRefusal | None = None
        self._slow: asyncio.TimerHandle | None = None
        self._first = self.loop.call_later(
            min(self.patience, FULL_SECONDS) if self._full else self.patience, self._give_up
        )

    def connection_lost(self, exc: Exception | None) -> None:
        self._first.cancel()
        self._stop_watching()
        answering = self._answering
        if answering is not None and not answering.response_complete:
            # uvicorn tells only the cycle that was read last.
            answering.disconnected = True
            answering.message_event.set()
        self.pipeline.clear()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return  # the connection closes after the answer before
        if self._full:
            self.on_full()
            self._refusal = ServerRefusal(503, full_text())
            self.transport.write(full_answer())
            self.transport.close()
            return
        self._unset_keepalive_if_required()
        before = self.cycle
        self._unheard += len(data)
        try:
            self._feed(data)
        except ServerRefusal as refusal:
            self._refuse(refusal)
            return
        if self.cycle is not before:
            # A whole head has come; its body and the answer have deadlines of their own.
            self._first.cancel()
        elif not _is_busy(self.cycle):
            self._expect_the_rest()

    def _feed(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                # Upgrades are not supported: without the offer, the request is read to its end.
                data = self._without_upgrade() + data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                cause = error.__context__
                raise ServerRefusal() if not isinstance(cause, ServerRefusal) else cause from None
        if self._unheard > MOST_HEAD:
            raise ServerRefusal() if self._in_body else ServerRefusal(431, TOO_LARGE)

    def _without_upgrade(self) -> bytes:
        """The head that was just read, without its offer to upgrade, for a new parser."""
        self.parser = httptools.HttpRequestParser(self)
        lines = [
            f"{self.scope['method']} ".encode() + self.url + f" HTTP/{self.scope['http_version']}".encode()
        ]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    # What the parser reads

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._hosts = 0
        self._coded = False
        self._head = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer, after the head was checked
        name = name.lower()
        value = value.rstrip(b" \t")
        self._head += len(name) + len(value) + 4
        if name == b"host":
            self._hosts += 1
        elif name == b"transfer-encoding":
            if self._coded or value.lower() != b"chunked":
                raise ServerRefusal
            self._coded = True
        elif name == b"expect":
            self.expect_100_continue = value.lower() == b"100-continue"
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        version, method = self.parser.get_http_version(), self.parser.get_method()
        if self._head + len(self.url) > MOST_HEAD:
            raise ServerRefusal(431, TOO_LARGE)
        if version not in VERSIONS or self._hosts > 1 or (not self._hosts and version == "1.1"):
            raise ServerRefusal
        # Only paths: a target that names another server is for a proxy.
        if method == b"CONNECT" or self.url[:1] not in (b"/", b"*") or b"#" in self.url:
            raise ServerRefusal
        if version == "1.0":
            if self._coded:
                raise ServerRefusal
            self.expect_100_continue = False
        if self.parser.should_upgrade():
            self.scope["method"], self.scope["http_version"] = method.decode("ascii"), version
            return
        super().on_headers_complete()
        self._in_body = True
        self._unheard = 0
        if not self.pipeline:
            self._answering = self.cycle

    def on_body(self, body: bytes) -> None:
        self._unheard = 0
        if self.cycle.response_complete:
            return
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self._in_body:
            return  # an upgrade: the same request is read again
        self._in_body = False
        self._unheard = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if self.pipeline:
            self._answering = self.pipeline[-1][0]
        super().on_response_complete()
        if self._refusal is not None and not self.pipeline and self._answering.response_complete:
            self._say(self._refusal)

    # Refusing

    def _refuse(self, refusal: ServerRefusal) -> None:
        """Answer what came before, then refuse, then close."""
        self._refusal = refusal
        self._first.cancel()
        answering = self._answering
        if self._in_body and self.pipeline:
            self.pipeline.popleft()  # this request was not started
        elif self._in_body and not answering.response_complete:
            if answering.response_started:
                self.transport.close()
                return
            # Its handler waits for the rest of the body, which does not come.
            answering.disconnected = True
            answering.message_event.set()
            self._say(refusal)
            return
        if answering is None or answering.response_complete:
            self._say(refusal)

    def _say(self, refusal: ServerRefusal) -> None:
        if self.transport.is_closing():
            return
        logger.warning("web.request_refused", extra={"status": refusal.status, "said": refusal.said})
        content = refusal.said.encode()
        head = [
            STATUS_LINE[refusal.status],
            *(name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers),
            b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n",
            b"content-length: %d\r\n\r\n" % len(content),
        ]
        self.transport.write(b"".join([*head, content]))
        self.transport.close()

    # Patience

    def _expect_the_rest(self) -> None:
        """The beginning of another request has come: the rest of it must follow."""
        if self._first.cancelled():
            self._first = self.loop.call_later(self.patience, self._give_up)

    def _give_up(self) -> None:
        self._first.cancel()
        self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_watching()

    def _watch(self, waiting: int) -> None:
        self._slow = self.loop.call_later(self.patience, self._look_again, waiting)

    def _look_again(self, before: int) -> None:
        """Leave a client that took too little of what waits for it."""
        waiting = self.transport.get_write_buffer_size()
        if before - waiting >= LEAST_TAKEN:
            self._watch(waiting)
        else:
            logger.warning("web.reader_left", extra={"waiting": waiting, "client": self.client})
            self.transport.abort()

    def _stop_watching(self) -> None:
        if self._slow is not None:
            self._slow.cancel()
            self._slow = None


def _is_busy(cycle: Any) -> bool:  # noqa: ANN401 - uvicorn says that it is never None, and it is
    return cycle is not None and not cycle.response_complete


def http_protocol(seconds: float, on_full: Callable[[], None]) -> type[ServerConnection]:
    """The protocol of a server with this patience; `on_full` is called for each that is one too many."""
    return type(
        "PatientConnection", (ServerConnection,), {"patience": seconds, "on_full": staticmethod(on_full)}
    )
