"""A Honcho server as far as the provider speaks with it: peers, sessions, messages, search, chat."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from holdfast.testing.http_server import HttpRequest
from tests.providers.contract_suite.threaded_backend import Reply, ThreadedBackend

ROUTE = re.compile(r"^/v3/workspaces(?:/(?P<workspace>[^/]+)(?:/(?P<rest>.*))?)?$")
WORD = re.compile(r"\w+")
WHEN = "2026-01-01T00:00:00Z"
ID = re.compile(r"^[A-Za-z0-9_-]{1,100}$")


class FakeHoncho:
    """Keeps messages in the order in which they come, and finds them by their words."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.backend = ThreadedBackend(self._reply)

    def said(self, peer: str = "user") -> list[str]:
        return [each["content"] for each in self.messages if each["peer_id"] == peer]

    def _reply(self, request: HttpRequest) -> Reply:
        address = urlsplit(request.path)
        found = ROUTE.match(address.path)
        if request.headers.get("authorization") == "Bearer wrong":
            return 401, {"detail": "Invalid API key"}
        if found is None:
            return 404, {"detail": "no such route"}
        body = request.json() if request.body else {}
        workspace, rest = found["workspace"], (found["rest"] or "").split("/")
        if workspace is None:
            return 200, {"id": body["id"], "created_at": WHEN}
        query = {key: values[0] for key, values in parse_qs(address.query).items()}
        if request.method == "DELETE":
            self.messages = [each for each in self.messages if ["sessions", each["session_id"]] != rest]
            return 202, {}
        return self._in_workspace(workspace, rest, body or {}, query)

    def _in_workspace(self, workspace: str, rest: list[str], body: Any, query: dict[str, str]) -> Reply:  # noqa: ANN401
        made = {"workspace_id": workspace, "created_at": WHEN}
        match rest:
            case ["peers" | "sessions"]:
                if not ID.match(body["id"]):
                    return 422, {"detail": f"not an id: {body['id']}"}
                return 200, {"id": body["id"], "is_active": True, **made}
            case ["sessions", session, "peers"]:
                return 200, {"id": session, "is_active": True, **made}
            case ["sessions", session, "context"]:
                return 200, {"id": session, "messages": [], "summary": None}
            case ["sessions", session, "messages"]:
                return self._add(workspace, session, body["messages"])
            case ["sessions", session, "messages", "list"]:
                wanted = (body.get("filters") or {}).get("metadata", {})
                kept = [each for each in self.messages if each["session_id"] == session]
                kept = [each for each in kept if wanted.items() <= each["metadata"].items()]
                size = int(query.get("size", 50))
                return 200, {"items": kept[:size], "page": 1, "size": size, "total": len(kept), "pages": 1}
            case ["search"]:
                return 200, self._like(body["query"])[: body["limit"]]
            case ["peers", peer, "context"]:
                about = [each["content"] for each in self._like(query.get("search_query", ""))[:1]]
                return 200, {"peer_id": peer, "target_id": peer, "representation": "\n".join(about)}
            case ["peers", _, "chat"]:
                return 200, {"content": f"You asked: {body['query']}"}
        return 404, {"detail": "no such route"}

    def _add(self, workspace: str, session: str, messages: list[dict[str, Any]]) -> Reply:
        if any(not each["content"].strip() or len(each["content"]) > 25_000 for each in messages):
            return 422, {"detail": "content must have 1 to 25000 characters"}
        now = datetime.now(UTC).isoformat()  # noqa: TID251 - a server's own clock
        added = [
            {
                "id": f"m{len(self.messages) + number}",
                "session_id": session,
                "workspace_id": workspace,
                "token_count": 1,
                "created_at": each.get("created_at") or now,
                "metadata": each.get("metadata") or {},
                "peer_id": each["peer_id"],
                "content": each["content"],
            }
            for number, each in enumerate(messages)
        ]
        self.messages += added
        return 201, added

    def _like(self, query: str) -> list[dict[str, Any]]:
        words = set(WORD.findall(query.lower()))
        scored = [(len(words & set(WORD.findall(each["content"].lower()))), each) for each in self.messages]
        return [each for score, each in sorted(scored, key=lambda pair: -pair[0]) if score]
