"""The calls of OpenViking's HTTP interface that the provider needs, with its errors as ours."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal
from urllib.parse import quote

from holdfast.core.errors import HoldfastError
from holdfast.core.messages import storable
from holdfast.providers.http_backend import client_failure, http_failure
from holdfast.providers.openviking.settings import OpenVikingSettings

NAME = "openviking"
MESSAGES_PER_REQUEST = 100
NOT_FOUND = 404
# Larger than any session, so that an answer has all messages.
WHOLE_SESSION = 1_000_000_000
RUNNING = frozenset({"pending", "running", "cancelling"})

Extraction = Literal["running", "done", "failed", "unknown"]


@dataclass(frozen=True, slots=True)
class ServerCommit:
    """The task and the archive of a commit on the server."""

    task: str
    archive: str


@dataclass(frozen=True, slots=True)
class ExtractedMemories:
    """What the server has made of one session."""

    own: tuple[str, ...]
    """The addresses of the memories that were made of this session alone."""
    shared: int
    """How many others it changed, or were changed since by others."""


class OpenVikingApi:
    """Used on one event loop only; `aclose` there."""

    def __init__(self, settings: OpenVikingSettings) -> None:
        import httpx2

        headers = {
            "X-API-Key": settings.key.reveal(),
            "X-OpenViking-Account": settings.account,
            "X-OpenViking-User": settings.user,
        }
        self._http = httpx2.AsyncClient(
            base_url=f"{settings.url}/api/v1",
            headers={name: value for name, value in headers.items() if value},
            timeout=settings.timeout_s,
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def add_messages(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> None:
        """Add messages in order, a hundred per request; the server creates a missing session."""
        for begin in range(0, len(messages), MESSAGES_PER_REQUEST):
            batch = [dict(each) for each in messages[begin : begin + MESSAGES_PER_REQUEST]]
            await self._request(
                "POST", f"/sessions/{session_name(session_id)}/messages/batch", {"messages": batch}
            )

    async def turns_in(self, session_id: str) -> set[str]:
        """The turns in the session, or in an archive that is being extracted."""
        path = f"/sessions/{session_name(session_id)}/context?token_budget={WHOLE_SESSION}"
        found = await self._request("GET", path, missing={})
        return {str(each["turn_id"]) for each in found.get("messages", ()) if each.get("turn_id")}

    async def commit(self, session_id: str) -> ServerCommit | None:
        """Archive and extract the messages of the session; None when it has none."""
        path = f"/sessions/{session_name(session_id)}/commit"
        answer = await self._request("POST", path, {}, missing={})
        return _server_commit(answer.get("task_id"), answer.get("archive_uri"))

    async def last_commit(self, session_id: str) -> ServerCommit | None:
        """The newest commit of the session, from any process."""
        tasks = await self._commits(session_id)
        if not tasks:
            return None
        newest = max(tasks, key=lambda task: float(task.get("created_at") or 0))
        return _server_commit(newest.get("task_id"), (newest.get("result") or {}).get("archive_uri"))

    async def _commits(self, session_id: str) -> list[dict[str, Any]]:
        query = f"task_type=session_commit&limit=50&resource_id={quote(session_name(session_id), safe='')}"
        return [dict(each) for each in await self._request("GET", f"/tasks?{query}", missing=[])]

    async def extraction(self, session_id: str, commit: ServerCommit) -> tuple[Extraction, str]:
        """The state of the extraction of a commit, and its error."""
        task = await self._request("GET", f"/tasks/{quote(commit.task, safe='')}", missing={})
        status = str(task.get("status", ""))
        if status in RUNNING:
            return "running", ""
        if status == "completed":
            return "done", ""
        if status:
            return "failed", str(task.get("error") or status)
        return await self._archived(session_id, commit), "the server no longer knows the task"

    async def _archived(self, session_id: str, commit: ServerCommit) -> Extraction:
        """For a task that the server has dropped, its archive shows whether it was completed."""
        if not commit.archive:
            return "unknown"
        archive = quote(commit.archive.rstrip("/").rpartition("/")[2], safe="")
        found = await self._request(
            "GET", f"/sessions/{session_name(session_id)}/archives/{archive}", missing={}
        )
        return "done" if found else "unknown"

    async def is_extracting(self, session_id: str) -> bool:
        """Whether the server still makes memories of the session."""
        return any(task.get("status") in RUNNING for task in await self._commits(session_id))

    async def memories_made_of(self, session_id: str) -> ExtractedMemories:
        """The memories that the archives of the session list as made or changed."""
        session = await self._request("GET", f"/sessions/{session_name(session_id)}", missing={})
        if not session:
            return ExtractedMemories((), 0)
        history = f"{session['uri']}/history"
        listed = f"simple=true&output=original&uri={quote(history, safe='')}"
        archives = await self._request("GET", f"/fs/ls?{listed}", missing=[])
        added: set[str] = set()
        texts: dict[str, str] = {}
        for archive in sorted(str(each).rstrip("/").rpartition("/")[2] for each in archives):
            changes = await self._changes_in(f"{history}/{archive}")
            added.update(each["uri"] for each in changes.get("adds", ()))
            for each in (*changes.get("adds", ()), *changes.get("updates", ())):
                texts[each["uri"]] = str(each.get("after", "")).strip()
        now = {uri: await self._read(uri) for uri in texts}
        own = [uri for uri in texts if uri in added and now[uri] == texts[uri]]
        return ExtractedMemories(tuple(own), sum(uri not in own and bool(now[uri]) for uri in texts))

    async def _changes_in(self, archive: str) -> dict[str, Any]:
        """What an archive's extraction has added, updated and deleted."""
        text = await self._read(f"{archive}/memory_diff.json")
        changes: dict[str, Any] = json.loads(text).get("operations", {}) if text else {}
        return changes

    async def _read(self, uri: str) -> str:
        """The text of a file on the server; empty when it is gone."""
        return str(await self._request("GET", f"/content/read?uri={quote(uri, safe='')}", missing="")).strip()

    async def delete_memory(self, uri: str) -> bool:
        """Delete a memory; False when the server has none."""
        return bool(await self._request("DELETE", f"/fs?uri={quote(uri, safe='')}", missing={}))

    async def delete_session(self, session_id: str) -> bool:
        """Delete a session with its messages and archives; False when the server has none."""
        answer = await self._request("DELETE", f"/sessions/{session_name(session_id)}", missing={})
        return bool(answer)

    async def find(self, query: str, limit: int) -> list[dict[str, Any]]:
        """The memories for the query, best match first."""
        asked = {
            "query": storable(query),
            "limit": limit,
            "context_type": "memory",
            "level": 2,  # the memories themselves, not the overviews of their folders
            "read_content": True,
        }
        answer = await self._request("POST", "/search/find", asked)
        return [dict(each) for each in answer.get("memories", ())]

    async def version(self) -> str:
        """The version of the server. Also lists the sessions, which an administrator's key can't do."""
        await self._request("GET", "/sessions")
        try:
            return str((await self._http.get(self._http.base_url.join("/health"))).json()["version"])
        except Exception as error:
            raise translated(error) from error

    async def _request(self, method: str, path: str, body: object = None, *, missing: Any = None) -> Any:  # noqa: ANN401 - JSON
        """The result of a request; `missing`, when given, is returned for status 404."""
        try:
            answer = await self._http.request(method, path, json=body)
            if answer.is_success:
                return answer.json()["result"]
        except Exception as error:
            raise translated(error) from error
        if answer.status_code == NOT_FOUND and missing is not None:
            return missing
        raise http_failure(NAME, answer.status_code, answer.text, answer.headers.get("Retry-After"))


def session_name(session_id: str) -> str:
    """The name of a session on the server: characters that a URL can't have are replaced, with a digest."""
    plain = re.sub(r"[^\w.-]+", "-", session_id, flags=re.ASCII)
    if plain == session_id and plain.strip("."):
        return plain
    return f"{plain}-{sha256(session_id.encode('utf-8', 'replace')).hexdigest()[:12]}"


def translated(error: Exception) -> HoldfastError:
    """The client's exception as one of our errors."""
    import httpx2

    return client_failure(NAME, error, httpx2.HTTPError)


def _server_commit(task: object, archive: object) -> ServerCommit | None:
    return ServerCommit(str(task), str(archive or "")) if task else None
