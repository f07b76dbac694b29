"""Checks under a deadline whether a provider works, for `memory setup` and `memory status`."""

import logging
from functools import partial

from holdfast.core.error_text import cut_words, error_text, error_words
from holdfast.core.errors import HoldfastError, ProviderNotWorking, ProviderUnavailable
from holdfast.memory.config import ProviderConfig
from holdfast.memory.contract import MemoryProvider
from holdfast.memory.provider_gate import GatedProvider

logger = logging.getLogger(__name__)

CHECK_SECONDS = 20.0
SHUTDOWN_SECONDS = 10.0


class ProviderCheck:
    """A check of one provider that runs on the provider's own thread."""

    def __init__(self, gated: GatedProvider, config: ProviderConfig, seconds: float = CHECK_SECONDS) -> None:
        self.name = gated.name
        self._seconds = seconds
        self._said = gated.gate.submit("check", partial(_check, gated.provider, config), seconds)

    def result(self) -> str:
        """The provider's own status line; raises `ProviderNotWorking` with the reason."""
        try:
            return self._said.result(self._seconds)
        except TimeoutError as cause:
            if not self._said.done():
                raise ProviderNotWorking(self.name, f"no answer in {self._seconds:g} s") from cause
            raise ProviderNotWorking(self.name, error_words(cause) if str(cause) else "a timeout") from cause
        except HoldfastError as cause:
            raise ProviderNotWorking(self.name, error_words(cause)) from cause
        except BaseException as cause:
            raise ProviderNotWorking(self.name, error_text(cause)) from cause


def _check(provider: MemoryProvider, config: ProviderConfig) -> str:
    check = getattr(provider, "check", None)
    try:
        return cut_words(str(check(config))) if check is not None else ""
    except BaseException:
        logger.warning("memory.check_failed", exc_info=True, extra={"provider": provider.name})
        raise


def shut_down_provider(gated: GatedProvider) -> str:
    """Shut down a provider that has no lanes; returns a message when that failed, else an empty text."""
    try:
        gated.answer("shutdown", gated.provider.shutdown, SHUTDOWN_SECONDS)
    except ProviderUnavailable as late:
        return error_words(late)
    except BaseException as error:
        logger.warning("memory.shutdown_failed", exc_info=True, extra={"provider": gated.name})
        return f"{gated.name} failed at its end: {error_text(error)}"
    return ""
