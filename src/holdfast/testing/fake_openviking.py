"""`FakeOpenViking`: the parts of an OpenViking server that a client needs to send, commit and search.

It behaves as the real server (0.5.2) does: messages have no key, a commit archives at once and extracts
later, a failed extraction clears the messages, and a restart may lose a task.
"""

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from holdfast.testing.faulty_server import FaultyServer, HttpCall, Reply

BATCH = 100
SESSIONS = "viking://user/default/sessions"
MEMORIES = "viking://user/default/memories/facts"


@dataclass(slots=True)
class _ExtractionTask:
    id: str
    session: str
    archive: str
    messages: list[dict[str, Any]]
    created: int
    status: str = "pending"
    polls: int = 0


@dataclass(slots=True)
class _Session:
    live: list[dict[str, Any]] = field(default_factory=list)
    archives: int = 0


class FakeOpenViking(FaultyServer):
    """A server on loopback; `key`, when given, must be sent."""

    def __init__(self, key: str = "", *, polls: int = 1, port: int = 0) -> None:
        super().__init__(self._reply, port=port)
        self._key = key
        self.polls = polls
        """How many status requests a task takes until it is done."""
        self._state_lock = threading.Lock()  # guards everything below
        self._sessions: dict[str, _Session] = {}
        self._tasks: dict[str, _ExtractionTask] = {}
        self._memories: dict[str, str] = {}
        self._made: dict[str, dict[str, str]] = {}  # by archive
        self._extracted = 0
        self._received: list[dict[str, Any]] = []
        self.failing_extractions = 0
        """How many extractions fail."""

    def live(self, session: str) -> list[str]:
        """The messages of a session that are not committed yet, in order."""
        with self._state_lock:
            return [str(each["content"]) for each in self._sessions.get(session, _Session()).live]

    def received(self) -> list[str]:
        """Every message that was ever received, in order."""
        with self._state_lock:
            return [str(each["content"]) for each in self._received]

    def memories(self) -> list[str]:
        """The extracted memories: each user message, once for every extraction."""
        with self._state_lock:
            return list(self._memories.values())

    def change_memory(self, text: str, changed: str) -> None:
        """Change a memory, as the extraction of another session does."""
        with self._state_lock:
            uri = next(uri for uri, known in self._memories.items() if known == text)
            self._memories[uri] = changed

    def forget_tasks(self) -> None:
        """Lose all tasks, as a restart does. Unfinished tasks are never finished."""
        with self._state_lock:
            self._tasks.clear()

    def _reply(self, call: HttpCall) -> Reply:
        if self._key and call.request.headers.get("x-api-key") != self._key:
            return _error(401, "UNAUTHENTICATED", "Invalid API Key")
        with self._state_lock:
            return self._routed(call)

    def _routed(self, call: HttpCall) -> Reply:
        match call.method, *call.parts:
            case "GET", "health":
                return Reply({"status": "ok", "version": "0.5.2"})
            case "GET", "api", "v1", "sessions":
                return _ok([{"session_id": session} for session in self._sessions])
            case "DELETE", "api", "v1", "sessions", session:
                return self._delete(session)
            case "POST", "api", "v1", "sessions", session, "messages", "batch":
                return self._add(session, call.request.json()["messages"])
            case "GET", "api", "v1", "sessions", session, "context":
                return self._context(session)
            case "POST", "api", "v1", "sessions", session, "commit":
                return self._commit(session)
            case "GET", "api", "v1", "sessions", session, "archives", archive:
                return self._archive(session, archive)
            case "GET", "api", "v1", "tasks", *task:
                return self._task(task[0]) if task else self._listed(call.query.get("resource_id", ""))
            case "POST", "api", "v1", "search", "find":
                return self._find(call.request.json())
        return self._file(call.method, call.parts[2:], call.query.get("uri", ""))

    def _add(self, session: str, messages: list[dict[str, Any]]) -> Reply:
        if len(messages) > BATCH:
            return _error(400, "INVALID_ARGUMENT", f"at most {BATCH} messages")
        known = self._sessions.setdefault(session, _Session())
        known.live += messages
        self._received += messages
        return _ok({"session_id": session, "added": len(messages), "message_count": len(known.live)})

    def _delete(self, session: str) -> Reply:
        # What was extracted stays: memories do not belong to a session. Its archives, which list them, go.
        if self._sessions.pop(session, None) is None:
            return _error(404, "NOT_FOUND", f"Session {session} not found")
        self._tasks = {name: task for name, task in self._tasks.items() if task.session != session}
        folder = f"{SESSIONS}/{session}/"
        self._made = {archive: made for archive, made in self._made.items() if not archive.startswith(folder)}
        return _ok({"session_id": session})

    def _file(self, method: str, path: tuple[str, ...], uri: str) -> Reply:
        """The files on the server: sessions, their archives with what was made of them, and memories."""
        match method, *path:
            case "GET", "sessions", session if session in self._sessions:
                return _ok({"session_id": session, "uri": f"{SESSIONS}/{session}"})
            case "GET", "fs", "ls":
                inside = [each for each in self._made if each.startswith(f"{uri}/")]
                return _ok([each.removeprefix(f"{uri}/") for each in inside])
            case "GET", "content", "read" if uri in self._memories:
                return _ok(self._memories[uri])
            case "GET", "content", "read" if uri.endswith("/memory_diff.json"):
                made = self._made.get(uri.removesuffix("/memory_diff.json"), {})
                adds = [{"uri": one, "memory_type": "facts", "after": text} for one, text in made.items()]
                return _ok(json.dumps({"operations": {"adds": adds, "updates": [], "deletes": []}}))
            case "DELETE", "fs" if self._memories.pop(uri, None) is not None:
                return _ok({"uri": uri})
        return _error(404, "NOT_FOUND", "Not Found")

    def _context(self, session: str) -> Reply:
        known = self._sessions.get(session)
        if known is None:
            return _error(404, "NOT_FOUND", f"Session {session} not found")
        waiting = [each for task in self._of(session) if task.status == "pending" for each in task.messages]
        return _ok({"messages": [*waiting, *known.live]})

    def _commit(self, session: str) -> Reply:
        known = self._sessions.get(session)
        if known is None:
            return _error(404, "NOT_FOUND", f"Session not found: {session}")
        if not known.live:
            return _ok({"status": "skipped", "task_id": None, "archive_uri": None, "reason": "no_messages"})
        known.archives += 1
        archive = f"{SESSIONS}/{session}/history/archive_{known.archives:03}"
        number = len(self._tasks) + 1
        task = _ExtractionTask(f"task-{number}", session, archive, known.live, number)
        known.live = []
        self._tasks[task.id] = task
        return _ok({"status": "accepted", "task_id": task.id, "archive_uri": archive})

    def _task(self, name: str) -> Reply:
        task = self._tasks.get(name)
        if task is None:
            return _error(404, "NOT_FOUND", "Task not found or expired")
        if task.status == "pending":
            task.polls += 1
            if task.polls >= self.polls:
                self._extract(task)
        return _ok(_shown(task))

    def _extract(self, task: _ExtractionTask) -> None:
        if self.failing_extractions:
            self.failing_extractions -= 1
            task.status = "failed"
            return
        task.status = "completed"
        said = [str(each["content"]) for each in task.messages if each["role"] == "user"]
        first = self._extracted
        self._extracted += len(said)
        made = {f"{MEMORIES}/{number}.md": text for number, text in enumerate(said, first)}
        self._made[task.archive] = made
        self._memories |= made

    def _archive(self, session: str, archive: str) -> Reply:
        done = [task for task in self._of(session) if task.archive.endswith(archive)]
        if done and done[0].status == "completed":
            return _ok({"archive_id": archive, "messages": done[0].messages})
        return _error(404, "NOT_FOUND", f"Archive {archive} not found")

    def _listed(self, session: str) -> Reply:
        return _ok([_shown(task) for task in self._of(session)])

    def _find(self, body: dict[str, Any]) -> Reply:
        words = _words(str(body["query"]))
        found = [text for text in dict.fromkeys(self._memories.values()) if words & _words(text)]
        memories = [{"context_type": "memory", "level": 2, "content": text} for text in found]
        return _ok({"memories": memories[: body["limit"]], "resources": [], "skills": []})

    def _of(self, session: str) -> list[_ExtractionTask]:
        return [task for task in self._tasks.values() if task.session == session]


def _shown(task: _ExtractionTask) -> dict[str, Any]:
    return {
        "task_id": task.id,
        "status": task.status,
        "created_at": float(task.created),
        "error": "the model gave no plan" if task.status == "failed" else None,
        "result": {"archive_uri": task.archive} if task.status == "completed" else None,
    }


def _ok(result: object) -> Reply:
    return Reply({"status": "ok", "result": result, "error": None})


def _error(status: int, code: str, message: str) -> Reply:
    return Reply({"status": "error", "result": None, "error": {"code": code, "message": message}}, status)


def _words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text.lower()) if len(word) > 2}  # noqa: PLR2004 - stop words
