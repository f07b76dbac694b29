"""OpenViking's HTTP interface as far as it is needed, on one event loop, and what its failures mean."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import quote

from holdfast.core.errors import HoldfastError, ProviderUnavailable
from holdfast.memory.providers.openviking.settings import OpenVikingSettings
from holdfast.memory.providers.wire import refused, sendable

NAME = "openviking"
BATCH = 100
NOT_FOUND = 404
# Larger than any session, so that no message is left out of an answer.
WHOLE_SESSION = 1_000_000_000
RUNNING = frozenset({"pending", "running", "cancelling"})

Extraction = Literal["running", "done", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class Commit:
    """What became of a request to commit a session."""

    task: str
    archive: str


class OpenVikingApi:
    """Used on one event loop only; `aclose` there."""

    def __init__(self, settings: OpenVikingSettings) -> None:
        import httpx

        headers = {
            "X-API-Key": settings.key.reveal(),
            "X-OpenViking-Account": settings.account,
            "X-OpenViking-User": settings.user,
        }
        self._http = httpx.AsyncClient(
            base_url=f"{settings.url}/api/v1",
            headers={name: value for name, value in headers.items() if value},
            timeout=settings.timeout_s,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def add_messages(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Add messages in order, a hundred at a time; the session is made when it is missing."""
        for begin in range(0, len(messages), BATCH):
            batch = [dict(each) for each in messages[begin : begin + BATCH]]
            await self._ask(
                "POST", f"/sessions/{session_name(session_id)}/messages/batch", {"messages": batch}
            )

    async def turns_in(self, session_id: str) -> set[str]:
        """The turns whose messages wait in the session, or are in an archive that is being extracted."""
        path = f"/sessions/{session_name(session_id)}/context?token_budget={WHOLE_SESSION}"
        found = await self._ask("GET", path, missing={})
        return {str(each["turn_id"]) for each in found.get("messages", ()) if each.get("turn_id")}

    async def commit(self, session_id: str) -> Commit | None:
        """Have the session's messages archived and extracted; None when it has none."""
        path = f"/sessions/{session_name(session_id)}/commit"
        answer = await self._ask("POST", path, {}, missing={})
        return _commit(answer.get("task_id"), answer.get("archive_uri"))

    async def last_commit(self, session_id: str) -> Commit | None:
        """The session's newest commit, from whatever process."""
        query = f"task_type=session_commit&limit=50&resource_id={quote(session_name(session_id), safe='')}"
        tasks = await self._ask("GET", f"/tasks?{query}", missing=[])
        if not tasks:
            return None
        newest = max(tasks, key=lambda task: float(task.get("created_at") or 0))
        return _commit(newest.get("task_id"), (newest.get("result") or {}).get("archive_uri"))

    async def extraction(self, session_id: str, commit: Commit) -> tuple[Extraction, str]:
        """How the extraction of a commit stands, and why it failed."""
        task = await self._ask("GET", f"/tasks/{quote(commit.task, safe='')}", missing={})
        status = str(task.get("status", ""))
        if status in RUNNING:
            return "running", ""
        if status == "completed":
            return "done", ""
        if status:
            return "failed", str(task.get("error") or status)
        return await self._archived(session_id, commit), "the server no longer knows the task"

    async def _archived(self, session_id: str, commit: Commit) -> Extraction:
        """Of a task that the server forgot, its archive still says whether it was completed."""
        if not commit.archive:
            return "unknown"
        archive = quote(commit.archive.rstrip("/").rpartition("/")[2], safe="")
        found = await self._ask("GET", f"/sessions/{session_name(session_id)}/archives/{archive}", missing={})
        return "done" if found else "unknown"

    async def find(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The memories that fit the query, best first."""
        asked = {
            "query": sendable(query),
            "limit": limit,
            "context_type": "memory",
            "level": 2,  # the memories themselves, not the overviews of their folders
            "read_content": True,
        }
        answer = await self._ask("POST", "/search/find", asked)
        return [dict(each) for each in answer.get("memories", ())]

    async def version(self) -> str:
        """The server's version. Lists the sessions too, which the key of an administrator may not do."""
        await self._ask("GET", "/sessions")
        try:
            return str((await self._http.get(self._http.base_url.join("/health"))).json()["version"])
        except Exception as error:
            raise translated(error) from error

    async def _ask(self, method: str, path: str, body: object = None, *, missing: Any = None) -> Any:  # noqa: ANN401 - JSON
        """The answer's result; `missing`, when given, is the answer for what isn't there."""
        try:
            answer = await self._http.request(method, path, json=body)
            if answer.is_success:
                return answer.json()["result"]
        except Exception as error:
            raise translated(error) from error
        if answer.status_code == NOT_FOUND and missing is not None:
            return missing
        raise refused(NAME, answer.status_code, answer.text, answer.headers.get("Retry-After"))


def session_name(session_id: str) -> str:
    """A session's name there: what an address can't hold is replaced, and told apart by a digest."""
    plain = re.sub(r"[^\w.-]+", "-", session_id, flags=re.ASCII)
    if plain == session_id and plain.strip("."):
        return plain
    return f"{plain}-{sha256(session_id.encode('utf-8', 'replace')).hexdigest()[:12]}"


def translated(error: Exception) -> HoldfastError:
    """What the client raised, by what can be done about it."""
    import httpx

    if isinstance(error, HoldfastError):
        return error
    if isinstance(error, httpx.HTTPError | OSError):
        return ProviderUnavailable(NAME, problem=f"{type(error).__name__}: {error}")
    return ProviderUnavailable(
        NAME, problem=f"its answer can't be understood ({type(error).__name__}: {error})"
    )


def _commit(task: object, archive: object) -> Commit | None:
    return Commit(str(task), str(archive or "")) if task else None
