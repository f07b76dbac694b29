"""The two ways to have mem0: its library on this machine, and its platform. Each adds, searches and closes.

Read `provider.py` first. Neither client repeats a request by itself, and each has a time limit: lanes retry.
"""

import fcntl
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, Protocol

from holdfast.core.errors import ProviderNotWorking, ProviderUnavailable, Undeliverable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.providers.mem0.importing import import_mem0

KEY = "holdfast_key"
SECONDS = 8.0
# Extraction by a language model takes its time; shutdown closes the connection under it.
MODEL_SECONDS = 60.0

Messages = list[dict[str, str]]


class Backend(Protocol):
    """What the provider needs of mem0."""

    def add(self, messages: Messages, *, key: str, session_id: str) -> None: ...

    def has(self, key: str) -> bool: ...

    def search(self, query: str, limit: int) -> list[str]: ...

    def close(self) -> None: ...


class Platform:
    """mem0's own service."""

    def __init__(self, config: ProviderConfig, folder: Path) -> None:
        import httpx

        mem0 = import_mem0(folder)
        self._user = config.text("user", "holdfast")
        self._infer = config.flag("infer", default=True)
        self._errors = _errors()
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

    def search(self, query: str, limit: int) -> list[str]:
        found = self._call(lambda: self._client.search(query, filters={"user_id": self._user}, top_k=limit))
        return [str(each["memory"]) for each in found.get("results", ()) if each.get("memory")]

    def close(self) -> None:
        self._http.close()

    def _call(self, call: Callable[[], Any]) -> Any:  # noqa: ANN401 - JSON
        try:
            return call()
        except self._errors.RateLimitError as cause:
            raise ProviderUnavailable("mem0", _seconds(cause)) from cause
        except self._errors.ValidationError as cause:
            raise Undeliverable(f"mem0 refuses it: {cause}") from cause


class Local:
    """mem0's library: Qdrant in a folder, and a language model and embeddings of one's own."""

    def __init__(self, config: ProviderConfig, folder: Path) -> None:
        mem0 = import_mem0(folder)
        self._user = config.text("user", "holdfast")
        self._infer = config.flag("infer", default=True)
        self._hold = _held(folder / "in-use")
        try:
            self._memory = mem0.Memory.from_config(_local_config(config, folder))
        except BaseException:
            self._hold.close()
            raise
        self._memory.llm.client = _limited(self._memory.llm.client, MODEL_SECONDS)
        embeddings = self._memory.embedding_model
        embeddings.client = _limited(embeddings.client, SECONDS)
        self._qdrant = self._memory.vector_store.client
        self._memory.vector_store.client = OneAtATime(self._qdrant)
        self._heard = Complaints()

    def add(self, messages: Messages, *, key: str, session_id: str) -> None:
        metadata = {KEY: key, "session": session_id}
        self._heard.clear()
        self._memory.add(messages, user_id=self._user, metadata=metadata, infer=self._infer)
        # It logs an answer of the model that it can't read, and returns as if there were nothing to keep.
        complaint = self._heard.of_this_thread()
        if complaint:
            raise ProviderUnavailable("mem0", problem=complaint)

    def has(self, key: str) -> bool:
        found = self._memory.get_all(filters={"user_id": self._user, KEY: key}, top_k=1)
        return bool(found["results"])

    def search(self, query: str, limit: int) -> list[str]:
        found = self._memory.search(query, filters={"user_id": self._user}, top_k=limit)
        return [str(each["memory"]) for each in found["results"]]

    def close(self) -> None:
        self._heard.close()
        for client in (self._memory.llm.client, self._memory.embedding_model.client):
            client.close()
        self._qdrant.close()
        self._memory.close()
        self._hold.close()


class OneAtATime:
    """Qdrant on a folder is plain Python and serves one thread at a time; two lanes call it."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401 - a library's client
        self._client = client
        self._turn = threading.RLock()  # held across one call of the client, which is in this process

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        found = getattr(self._client, name)
        if not callable(found):
            return found

        def call(*args: object, **kwargs: object) -> object:
            with self._turn:
                return found(*args, **kwargs)

        return call


class Complaints(logging.Handler):
    """The errors that mem0 logs and swallows, by the thread on which they came."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._logger = logging.getLogger("mem0.memory.main")
        self._logger.addHandler(self)
        self._said: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self._said[record.thread or 0] = record.getMessage()

    def clear(self) -> None:
        self._said.pop(threading.get_ident(), None)

    def of_this_thread(self) -> str:
        return self._said.get(threading.get_ident(), "")

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()


def _held(file: Path) -> IO[bytes]:
    """The folder for this process alone, until the file is closed; refused while another has it."""
    hold = file.open("ab")
    try:
        fcntl.flock(hold, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as cause:
        hold.close()
        raise ProviderNotWorking("mem0", f"another process has {file.parent}; it waits its turn") from cause
    return hold


def _limited(client: Any, seconds: float) -> Any:  # noqa: ANN401 - an OpenAI client
    """The client with a time limit, and without repeating by itself."""
    return client.with_options(timeout=seconds, max_retries=0)


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


def _errors() -> Any:  # noqa: ANN401 - a library without types
    from mem0 import exceptions

    return exceptions


def _seconds(error: BaseException) -> float | None:
    """When to come again, if the platform said so."""
    told = getattr(error, "debug_info", None) or {}
    return float(told["retry_after"]) if "retry_after" in told else None
