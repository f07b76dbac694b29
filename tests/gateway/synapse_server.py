"""A real Matrix server for tests: Synapse in an environment of its own, on loopback, on a temporary folder.

`synapse` is one server for the whole run of a test worker. Tests share it, so each makes accounts of its own.
"""

import base64
import hashlib
import hmac
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.core.secret import Secret
from holdfast.gateway.adapters.matrix import MatrixCredentials
from tests.backends.servers import RealServer
from tools.synapse import ensure_synapse

DOMAIN = "gw.test"
PASSWORD = "correct horse"
SECRET = "for registration"
UNLIMITED = {"per_second": 1000, "burst_count": 1000}
LIMITS = ("message", "registration", "invites", "room_creation", "media_create", "reports")


class SynapseServer(RealServer):
    """It can be killed and started again: rooms, accounts and transaction ids are in its folder."""

    def __init__(self, folder: Path) -> None:
        ensure_synapse()
        super().__init__("synapse", folder)
        self._numbers = itertools.count(1)
        self._config = folder / "homeserver.json"  # JSON is YAML too
        self._config.write_text(json.dumps(self._settings()))

    def command(self) -> list[str]:
        return [*super().command(), "-c", str(self._config)]

    def limit(self, user_id: str, **rates: int) -> None:
        """Let the server answer 429 to what this account sends too fast."""
        admin = self.register("admin", is_admin=True)
        signed = {"authorization": f"Bearer {admin.token.reveal()}"}
        self.ask("POST", f"/_synapse/admin/v1/users/{user_id}/override_ratelimit", json=rates, headers=signed)

    def register(self, name: str, *, is_admin: bool = False) -> MatrixCredentials:
        """A new account, whose name begins with this one."""
        user = f"{name}-{next(self._numbers)}"
        path = "/_synapse/admin/v1/register"
        nonce = str(self.ask("GET", path)["nonce"])
        signed = "\0".join([nonce, user, PASSWORD, "admin" if is_admin else "notadmin"]).encode()
        made = self.ask(
            "POST",
            path,
            json={
                "nonce": nonce,
                "username": user,
                "displayname": name,
                "password": PASSWORD,
                "admin": is_admin,
                "mac": hmac.new(SECRET.encode(), signed, hashlib.sha1).hexdigest(),
            },
        )
        return MatrixCredentials(self.url, made["user_id"], Secret(made["access_token"]), made["device_id"])

    def ask(self, method: str, path: str, **sent: Any) -> Any:  # noqa: ANN401 - JSON
        answer = httpx2.request(method, f"{self.url}{path}", timeout=60, **sent)
        assert answer.is_success, answer.text
        return answer.json()

    def _settings(self) -> dict[str, Any]:
        key, log = self.folder / "signing.key", self.folder / "log.json"
        key.write_text(f"ed25519 a_test {base64.b64encode(os.urandom(32)).decode().rstrip('=')}\n")
        log.write_text(json.dumps({"version": 1, "root": {"level": "WARNING"}}))
        joins = {"local": UNLIMITED, "remote": UNLIMITED}
        logins = {"address": UNLIMITED, "account": UNLIMITED, "failed_attempts": UNLIMITED}
        invites = {"per_room": UNLIMITED, "per_user": UNLIMITED, "per_issuer": UNLIMITED}
        return {
            "server_name": DOMAIN,
            "public_baseurl": self.url,
            "pid_file": str(self.folder / "homeserver.pid"),
            "listeners": [
                {
                    "type": "http",
                    "port": self.port,
                    "bind_addresses": ["127.0.0.1"],
                    "tls": False,
                    "resources": [{"names": ["client", "media"]}],
                }
            ],
            "database": {"name": "sqlite3", "args": {"database": str(self.folder / "homeserver.db")}},
            "signing_key_path": str(key),
            "log_config": str(log),
            "media_store_path": str(self.folder / "media"),
            "registration_shared_secret": SECRET,
            "macaroon_secret_key": "for tokens",
            "form_secret": "for forms",
            "report_stats": False,
            "suppress_key_server_warning": True,
            "trusted_key_servers": [],
            "federation_domain_whitelist": [],
            "presence": {"enabled": False},
            "push": {"enabled": False},
            "bcrypt_rounds": 4,
            "max_upload_size": "2M",
            # Else a repeated `/sync` is answered from a cache.
            "caches": {"sync_response_cache_duration": "0s"},
            **{f"rc_{name}": UNLIMITED for name in LIMITS},
            "rc_invites": invites,
            "rc_joins": joins,
            "rc_login": logins,
            "rc_joins_per_room": UNLIMITED,
            "rc_admin_redaction": UNLIMITED,
        }


@pytest.fixture(scope="session")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SynapseServer]:
    server = SynapseServer(tmp_path_factory.mktemp("synapse"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
