"""Tries whether a provider works, under a deadline: what `memory setup` and `memory status` show."""

import logging
import threading
from concurrent.futures import Future

from holdfast.core.errors import HoldfastError, ProviderNotWorking
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import MemoryProvider

logger = logging.getLogger(__name__)

CHECK_SECONDS = 20.0


class Trial:
    """One provider's check, under way on a thread of its own."""

    def __init__(self, provider: MemoryProvider, config: ProviderConfig) -> None:
        self._provider = provider
        self._config = config
        self._said: Future[str] = Future()
        threading.Thread(target=self._run, name=f"memory-check-{provider.name}", daemon=True).start()

    def _run(self) -> None:
        try:
            check = getattr(self._provider, "check", None)
            self._said.set_result(str(check(self._config)) if check is not None else "")
        except BaseException as error:
            logger.warning("memory.check_failed", exc_info=True, extra={"provider": self._provider.name})
            self._said.set_exception(error)

    def result(self, seconds: float = CHECK_SECONDS) -> str:
        """What the provider says of itself; raises `ProviderNotWorking` with the reason."""
        try:
            return self._said.result(seconds)
        except TimeoutError as cause:
            if not self._said.done():
                raise ProviderNotWorking(self._provider.name, f"no answer in {seconds:g} s") from cause
            raise ProviderNotWorking(self._provider.name, str(cause) or "a timeout") from cause
        except HoldfastError as cause:
            raise ProviderNotWorking(self._provider.name, str(cause)) from cause
        except BaseException as cause:
            raise ProviderNotWorking(self._provider.name, f"{type(cause).__name__}: {cause}") from cause
