"""`FakeHindsight`: the parts of a Hindsight server that a client needs to retain and recall.

It behaves as the real server (1.1.0) does: it ignores an operation id that it knows, processes an operation
later and may fail, repeats a failed operation only on request, and answers "not found" for an unknown bank.
"""

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from holdfast.testing.faulty_server import FaultyServer, HttpCall, Reply


@dataclass(slots=True)
class _Operation:
    bank: str
    item: dict[str, Any]
    status: str = "pending"
    polls: int = 0


class FakeHindsight(FaultyServer):
    """A server on loopback; `key`, when given, must be sent."""

    def __init__(self, key: str = "", *, polls: int = 1, port: int = 0) -> None:
        super().__init__(self._reply, port=port)
        self._key = key
        self.polls = polls
        """How many requests later an operation is processed."""
        self._state_lock = threading.Lock()  # guards everything below
        self._operations: dict[str, _Operation] = {}
        self._documents: dict[tuple[str, str], list[dict[str, Any]]] = {}
        self.failing_operations = 0
        """How many operations fail when they are processed."""

    def document(self, bank: str, document: str) -> list[str]:
        """What was appended to a document, in order."""
        with self._state_lock:
            return [str(item["content"]) for item in self._documents.get((bank, document), [])]

    def items(self) -> list[dict[str, Any]]:
        """Every item that was processed, as it was sent."""
        with self._state_lock:
            return [item for items in self._documents.values() for item in items]

    def _reply(self, call: HttpCall) -> Reply:
        if self._key and call.request.headers.get("authorization") != f"Bearer {self._key}":
            return Reply({"detail": "Invalid API key"}, 401)
        with self._state_lock:
            self._work_on()
            return self._routed(call)

    def _routed(self, call: HttpCall) -> Reply:
        if call.parts == ("version",):
            return Reply({"api_version": "1.1.0", "features": _FEATURES})
        match call.method, *call.parts:
            case "POST", "v1", "default", "banks", bank, "memories":
                return self._retain(bank, call.request.json())
            case "GET", "v1", "default", "banks", _, "operations", operation:
                return self._status(operation)
            case "POST", "v1", "default", "banks", _, "operations", operation, "retry":
                return self._retry(operation)
            case "POST", "v1", "default", "banks", bank, "memories", "recall":
                return self._recalled(bank, call.request.json())
            case "DELETE", "v1", "default", "banks", bank, "documents", document:
                return self._delete(bank, document)
            case "POST", "v1", "default", "banks", bank, "reflect":
                return self._in_bank(bank, lambda: Reply({"text": f"I know {len(self._facts(bank))} facts."}))
        return Reply({"detail": "Not Found"}, 404)

    def _retain(self, bank: str, body: dict[str, Any]) -> Reply:
        operation = str(body["operation_id"])
        (item,) = body["items"]
        if not item["content"]:
            return Reply({"detail": "content cannot be empty"}, 422)
        known = self._operations.setdefault(operation, _Operation(bank, item))
        if known.bank != bank:
            return Reply({"detail": f"operation_id {operation} is already in use"}, 409)
        accepted = {"success": True, "bank_id": bank, "items_count": 1, "async": True}
        return Reply({**accepted, "operation_id": operation})

    def _delete(self, bank: str, document: str) -> Reply:
        gone = self._documents.pop((bank, document), None)
        if gone is None:
            return Reply({"detail": "Document not found"}, 404)
        facts = sum(len(str(item["content"]).splitlines()) for item in gone)
        told = {"success": True, "message": "deleted", "document_id": document}
        return Reply({**told, "memory_units_deleted": facts})

    def _status(self, operation: str) -> Reply:
        known = self._operations.get(operation)
        if known is None:
            return Reply({"operation_id": operation, "status": "not_found"})
        error = "the model gave no facts" if known.status == "failed" else None
        return Reply({"operation_id": operation, "status": known.status, "error_message": error})

    def _work_on(self) -> None:
        """Process operations in the background, whether or not a client asks about them."""
        for operation in self._operations.values():
            if operation.status == "pending":
                operation.polls += 1
                if operation.polls >= self.polls:
                    self._process(operation)

    def _process(self, operation: _Operation) -> None:
        if self.failing_operations:
            self.failing_operations -= 1
            operation.status = "failed"
            return
        operation.status = "completed"
        position = (operation.bank, str(operation.item["document_id"]))
        if operation.item.get("update_mode") != "append":
            self._documents[position] = []
        self._documents.setdefault(position, []).append(operation.item)

    def _retry(self, operation: str) -> Reply:
        known = self._operations.get(operation)
        if known is None or known.status != "failed":
            return Reply({"detail": "nothing to retry"}, 409 if known else 404)
        known.status, known.polls = "pending", 0
        return Reply({"success": True, "message": "queued", "operation_id": operation})

    def _recalled(self, bank: str, body: dict[str, Any]) -> Reply:
        words = _words(str(body["query"]))
        wanted = set(body.get("tags") or ())

        def found() -> Reply:
            facts = [
                {"id": f"{position}", "text": text, "type": "world", "mentioned_at": item.get("timestamp")}
                for position, (item, text) in enumerate(self._facts(bank))
                if words & _words(text) and (not wanted or wanted & set(item.get("tags") or ()))
            ]
            return Reply({"results": facts})

        return self._in_bank(bank, found)

    def _in_bank(self, bank: str, answer: Callable[[], Reply]) -> Reply:
        if not any(operation.bank == bank for operation in self._operations.values()):
            return Reply({"detail": f"Bank '{bank}' not found"}, 404)
        return answer()

    def _facts(self, bank: str) -> list[tuple[dict[str, Any], str]]:
        return [
            (item, line)
            for (owner, _), items in self._documents.items()
            for item in items
            for line in str(item["content"]).splitlines()
            if owner == bank and line.strip()
        ]


_FEATURES = dict.fromkeys(
    (
        "observations",
        "mcp",
        "worker",
        "bank_config_api",
        "bank_llm_health",
        "file_upload_api",
        "document_export_api",
        "document_import_api",
        "audit_log",
        "llm_trace",
        "store_document_text",
    ),
    False,
)


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2}  # noqa: PLR2004 - stop words
