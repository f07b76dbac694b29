"""The two backends of mem0: its library on this machine, and its hosted platform.

Read `provider.py` first. Neither client retries, and each has a timeout: the lanes retry.
"""

import copy
import fcntl
import importlib
import logging
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, Self

from holdfast.core.errors import ProviderNotWorking, ProviderUnavailable, Undeliverable
from holdfast.memory.config import ProviderConfig
from holdfast.providers.mem0.library import import_mem0
from holdfast.sessions.contract import scope_folder

KEY = "holdfast_key"
SECONDS = 8.0
MAX_FACTS = 100
# Extraction by a language model is slow; `shutdown` closes its connection.
MODEL_SECONDS = 60.0

Messages = list[dict[str, str]]


class Mem0Backend(Protocol):
    """The calls that the provider makes."""

    def add(self, messages: Messages, *, key: str, session_id: str) -> None: ...

    def has(self, key: str) -> bool: ...

    def forget(self, key: str) -> int:
        """Delete the facts of a turn; returns how many."""
        ...

    def search(self, query: str, limit: int) -> list[str]: ...

    def of_scope(self, scope: str) -> Self:
        """The same backend for the memories of one scope; it is not closed by itself."""
        ...

    def close(self) -> None: ...


class OneUser:
    """The memories of one user of mem0."""

    _user: str

    def of_scope(self, scope: str) -> Self:
        other = copy.copy(self)
        other._user = f"{self._user}-{scope_folder(scope)}"  # noqa: SLF001 - its own copy
        return other


class Mem0Platform(OneUser):
    """The hosted platform of mem0."""

    def __init__(self, config: ProviderConfig, folder: Path) -> None:
        import httpx

        mem0 = import_mem0(folder)
        self._errors = importlib.import_module("mem0.exceptions")
        self._user = config.text("user", "holdfast")
        self._infer = config.flag("infer", default=True)
        self._http = httpx.Client(timeout=SECONDS)
        try:
            self._client = mem0.MemoryClient(
                api_key=config.secret("api_key").reveal(),
                host=config.text("host", "https://api.mem0.ai"),
                client=self._http,
            )
        except BaseException:
            self._http.close()
            raise

    def add(self, messages: Messages, *, key: str, session_id: str) -> None:
        metadata = {KEY: key, "session": session_id}
        self._call(
            lambda: self._client.add(messages, user_id=self._user, metadata=metadata, infer=self._infer)
        )

    def has(self, key: str) -> bool:
        filters = {"AND": [{"user_id": self._user}, {"metadata": {KEY: key}}]}
        found = self._call(lambda: self._client.get_all(filters=filters, page=1, page_size=1))
        return bool(found.get("results"))

    def forget(self, key: str) -> int:
        filters = {"AND": [{"user_id": self._user}, {"metadata": {KEY: key}}]}
        deleted = 0
        while found := self._call(
            lambda: self._client.get_all(filters=filters, page=1, page_size=MAX_FACTS)
        ).get("results"):
            for each in found:
                self._call(partial(self._client.delete, each["id"]))
            deleted += len(found)
        return deleted

    def search(self, query: str, limit: int) -> list[str]:
        found = self._call(lambda: self._client.search(query, filters={"user_id": self._user}, top_k=limit))
        return [str(each["memory"]) for each in found.get("results", ()) if each.get("memory")]

    def close(self) -> None:
        self._http.close()

    def _call(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        try:
            return call()
        except self._errors.RateLimitError as cause:
            raise ProviderUnavailable("mem0", _retry_after(cause)) from cause
        except self._errors.ValidationError as cause:
            raise Undeliverable(f"mem0 refuses it: {cause}") from cause


class Mem0Library(OneUser):
    """The library of mem0, with Qdrant in a folder and the user's own language model and embeddings."""

    def __init__(self, config: ProviderConfig, folder: Path) -> None:
        mem0 = import_mem0(folder)
        self._user = config.text("user", "holdfast")
        self._infer = config.flag("infer", default=True)
        self._history = folder / "history.db"
        _share_qdrant_between_threads()
        self._folder_lock = _lock_folder(folder / "in-use")
        try:
            self._memory = mem0.Memory.from_config(_local_config(config, folder))
        except BaseException:
            self._folder_lock.close()
            raise
        # The lanes retry, so the clients do not.
        model, embeddings = self._memory.llm, self._memory.embedding_model
        model.client = model.client.with_options(timeout=MODEL_SECONDS, max_retries=0)
        embeddings.client = embeddings.client.with_options(timeout=SECONDS, max_retries=0)
        self._qdrant = self._memory.vector_store.client
        self._memory.vector_store.client = SerialClient(self._qdrant)
        self._logged_errors = LoggedErrors()

    def add(self, messages: Messages, *, key: str, session_id: str) -> None:
        metadata = {KEY: key, "session": session_id}
        self._logged_errors.clear()
        self._memory.add(messages, user_id=self._user, metadata=metadata, infer=self._infer)
        # It only logs an unreadable answer of the model and returns as if there were no facts.
        complaint = self._logged_errors.of_this_thread()
        if complaint:
            raise ProviderUnavailable("mem0", problem=complaint)

    def has(self, key: str) -> bool:
        found = self._memory.get_all(filters={"user_id": self._user, KEY: key}, top_k=1)
        return bool(found["results"])

    def forget(self, key: str) -> int:
        deleted = 0
        while found := self._memory.get_all(filters={"user_id": self._user, KEY: key}, top_k=MAX_FACTS)[
            "results"
        ]:
            for each in found:
                self._memory.delete(each["id"])
            _wipe_history(self._history, [each["id"] for each in found])
            deleted += len(found)
        return deleted

    def search(self, query: str, limit: int) -> list[str]:
        found = self._memory.search(query, filters={"user_id": self._user}, top_k=limit)
        return [str(each["memory"]) for each in found["results"]]

    def close(self) -> None:
        self._logged_errors.close()
        for client in (self._memory.llm.client, self._memory.embedding_model.client):
            client.close()
        self._qdrant.close()
        self._memory.close()
        self._folder_lock.close()


class SerialClient:
    """Serialises the calls of two lanes: Qdrant in a folder serves one thread at a time."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - a library's client
        self._client = client
        self._lock = threading.RLock()  # held across one call of the client, which is in this process

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: object, **kwargs: object) -> object:
            with self._lock:
                return found(*args, **kwargs)

        return call


class LoggedErrors(logging.Handler):
    """The errors that mem0 only logs, by thread."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._logger = logging.getLogger("mem0.memory.main")
        self._logger.addHandler(self)
        self._messages: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self._messages[record.thread or 0] = record.getMessage()

    def clear(self) -> None:
        self._messages.pop(threading.get_ident(), None)

    def of_this_thread(self) -> str:
        return self._messages.get(threading.get_ident(), "")

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()


def _lock_folder(file: Path) -> IO[bytes]:
    """Lock the folder for this process until the file is closed; raises while another process has it."""
    hold = file.open("ab")
    try:
        fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        hold.close()
        raise ProviderNotWorking("mem0", f"another process has {file.parent}; it waits its turn") from cause
    return hold


def _wipe_history(file: Path, memory_ids: list[str]) -> None:
    """Delete forgotten facts from mem0's history, and the last messages that it keeps as context."""
    with closing(sqlite3.connect(file, timeout=SECONDS)) as history, history:
        history.execute("pragma secure_delete = on")
        history.executemany("delete from history where memory_id = ?", [(each,) for each in memory_ids])
        history.execute("delete from messages")


def _share_qdrant_between_threads() -> None:
    """Allow calls from two lanes. Otherwise Qdrant opens a database to test this and never closes it."""
    from qdrant_client.local.persistence import CollectionPersistence

    CollectionPersistence.CHECK_SAME_THREAD = False


def _local_config(config: ProviderConfig, folder: Path) -> dict[str, Any]:
    key = config.secret("llm_api_key").reveal() or "none"
    url = config.text("llm_url", "https://api.openai.com/v1")
    dimensions = int(config.number("dimensions", 1536))
    return {
        "vector_store": {
            "provider": "qdrant",
            "config": {
                "path": str(folder / "qdrant"),
                "collection_name": "holdfast",
                "embedding_model_dims": dimensions,
                "on_disk": True,
            },
        },
        "llm": {
            "provider": "openai",
            "config": {"model": config.text("llm_model"), "api_key": key, "openai_base_url": url},
        },
        "embedder": {
            "provider": "openai",
            "config": {
                "model": config.text("embedding_model"),
                "api_key": key,
                "openai_base_url": config.text("embedding_url", url),
            },
        },
        "history_db_path": str(folder / "history.db"),
    }


def _retry_after(error: BaseException) -> float | None:
    """The seconds until a retry, if the platform gives them."""
    debug_info = getattr(error, "debug_info", None) or {}
    return float(debug_info["retry_after"]) if "retry_after" in debug_info else None
