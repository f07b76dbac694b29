"""mem0's platform as far as the provider speaks with it: ping, add, list, search."""

import re
from typing import Any

from holdfast.testing.http_server import HttpRequest
from tests.providers.contract_suite.threaded_backend import Reply, ThreadedBackend

WORD = re.compile(r"\w+")


class FakePlatform:
    """Keeps what it is given in the order in which it comes, and answers before it has looked at it."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.added = 0
        self.backend = ThreadedBackend(self._reply)

    def _reply(self, request: HttpRequest) -> Reply:
        if request.headers.get("authorization") != "Token k":
            return 401, {"detail": "Invalid API key"}
        path = request.path.partition("?")[0]
        if path == "/v1/ping/":
            return 200, {"status": "ok", "org_id": "o", "project_id": "p", "user_email": "a@b.example"}
        if request.method == "DELETE":
            wanted = path.strip("/").rpartition("/")[2]
            self.kept = [each for each in self.kept if each["id"] != wanted]
            return 200, {"message": "Memory deleted successfully!"}
        body = request.json()
        match path:
            case "/v3/memories/add/":
                said = [each["content"] for each in body["messages"] if each["role"] == "user"]
                self.added += 1
                self.kept += [
                    {"id": f"m{self.added}-{number}", "memory": text, "metadata": body["metadata"]}
                    for number, text in enumerate(said)
                ]
                return 200, {"message": "queued", "status": "PENDING", "event_id": "e"}
            case "/v3/memories/":
                wanted = next(each["metadata"] for each in body["filters"]["AND"] if "metadata" in each)
                found = [each for each in self.kept if wanted.items() <= each["metadata"].items()]
                return 200, {"count": len(found), "next": None, "previous": None, "results": found}
            case "/v3/memories/search/":
                return 200, {"results": self._like(body["query"])[: body["top_k"]]}
        return 404, {"detail": "no such route"}

    def _like(self, query: str) -> list[dict[str, Any]]:
        words = set(WORD.findall(query.lower()))
        scored = [(len(words & set(WORD.findall(each["memory"].lower()))), each) for each in self.kept]
        return [each for score, each in sorted(scored, key=lambda pair: -pair[0]) if score]
