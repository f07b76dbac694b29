"""Real proxies with TLS in front of a server, set up with the very text of docs/behind-a-proxy.md."""

import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.web.page.web_server import PATIENCE, free_port

DOCUMENT = Path(__file__).parents[3] / "docs" / "behind-a-proxy.md"
CERTIFICATE = Path(__file__).parents[2] / "models" / "certificates" / "localhost.pem"
NAME = "holdfast.example.org"
NEEDED = "REQUIRE_NGINX"
LOCATION = "    location / {\n        proxy_pass http://127.0.0.1:8484;\n"


def documented(language: str) -> list[str]:
    """The blocks of a language in the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def nginx_text(prefix: str, port: int, to: int, users: Path | None = None) -> str:
    """The documented server, here: other ports, and a certificate of the tests."""
    server, signs_in, below, for_mcp = documented("nginx")
    # What the page for MCP adds stands in every server here: nginx must take it, too.
    assert LOCATION in server
    others = server[server.index(LOCATION) + len(LOCATION) : server.index("    }\n", server.index(LOCATION))]
    server = server.replace(LOCATION, f"{for_mcp}{others}    }}\n{LOCATION}")
    if users:
        signed = signs_in.replace("/etc/nginx/holdfast.users", str(users))
        assert signed != signs_in
        server = server.replace(LOCATION, LOCATION + signed)
    if prefix:
        server = server.replace(LOCATION, below)
    return _put(
        server,
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/holdfast.pem", str(CERTIFICATE)),
        ("/etc/ssl/holdfast.key", str(CERTIFICATE)),
        ("127.0.0.1:8484", f"127.0.0.1:{to}"),
    )


def caddy_text(prefix: str, port: int, to: int) -> str:
    plain, below = documented("caddy")
    text = below.replace("example.org {", f"{NAME} {{", 1) if prefix else plain
    return _put(
        text,
        (f"{NAME} {{", f"https://{NAME}:{port} {{\n    tls {CERTIFICATE} {CERTIFICATE}"),
        ("127.0.0.1:8484", f"127.0.0.1:{to}"),
    )


def _put(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text, f"{old} is not in the document any more"
        text = text.replace(old, new)
    return text


@contextmanager
def nginx(folder: Path, prefix: str, to: int, users: Path | None = None) -> Iterator[int]:
    """A running nginx; skips where there is none, and fails where that is not allowed.

    With `users` it asks everybody for a password in that file.
    """
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None and os.environ.get(NEEDED):
        pytest.fail(f"nginx is not installed ({NEEDED} is set, so this is a failure)")
    if program is None:
        pytest.skip("nginx is not installed (Debian: apt-get install nginx-light)")
    port = free_port()
    kept = "\n".join(
        f"    {kind}_temp_path {folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = folder / "nginx.conf"
    config.write_text(
        f"daemon off;\npid {folder}/nginx.pid;\nevents {{}}\nhttp {{\n    access_log off;\n{kept}\n"
        f"{nginx_text(prefix, port, to, users)}}}\n",
        encoding="utf-8",
    )
    with _running([program, "-e", "stderr", "-p", str(folder), "-c", str(config)], folder, port):
        yield port


@contextmanager
def caddy(folder: Path, prefix: str, to: int) -> Iterator[int]:
    program = shutil.which("caddy")
    if program is None:
        pytest.skip("Caddy is not installed (Debian: apt-get install caddy)")
    port = free_port()
    config = folder / "Caddyfile"
    options = (
        f"{{\n    admin off\n    auto_https disable_redirects\n    storage file_system {folder}/kept\n}}\n"
    )
    config.write_text(options + caddy_text(prefix, port, to), encoding="utf-8")
    with _running([program, "run", "--adapter", "caddyfile", "--config", str(config)], folder, port):
        yield port


@contextmanager
def _running(command: Sequence[str], folder: Path, port: int) -> Iterator[None]:
    log = folder / "proxy.log"
    with log.open("w") as written:
        process = subprocess.Popen(command, stdout=written, stderr=written, cwd=folder)
    try:
        _wait_for(port, process, log)
        yield
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        finally:
            process.kill()
            process.wait()


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < until:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
    raise AssertionError(f"the proxy does not listen:\n{log.read_text()}")
