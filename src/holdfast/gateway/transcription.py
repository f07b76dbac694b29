"""`Transcriber`: turns a voice note into words, on a server that speaks OpenAI's transcription API.

Local servers (whisper.cpp, faster-whisper, vLLM) offer the same call. Nothing is sent anywhere unless the
settings name a server.
"""

from pathlib import Path

import httpx2

from holdfast.core.errors import HoldfastError
from holdfast.core.secret import Secret
from holdfast.core.settings import GatewaySettings
from holdfast.process import DaemonPool, off_loop
from holdfast.process.http_transport import direct_transport

MAX_VOICE_BYTES = 25_000_000
"""OpenAI takes no more, and an hour of speech has less."""
MAX_TRANSCRIPT = 100_000
SECONDS = 120.0
MEGABYTE = 1_000_000


class NotTranscribed(HoldfastError):
    """There are no words for a voice note; the text says why."""


class Transcriber:
    """One transcription server."""

    def __init__(self, url: str, model: str, key: Secret, disk: DaemonPool) -> None:
        self._url = f"{url.rstrip('/')}/audio/transcriptions"
        self._model = model
        self._key = key
        self._disk = disk

    @classmethod
    def of(cls, settings: GatewaySettings, disk: DaemonPool) -> "Transcriber | None":
        """The server of the settings; None when they name none. `disk` reads the files."""
        if not settings.transcription_url:
            return None
        return cls(settings.transcription_url, settings.transcription_model, settings.transcription_key, disk)

    async def words(self, file: Path, media_type: str) -> str:
        """What is said in a file; `NotTranscribed` when nobody can tell."""
        size = (await off_loop(self._disk, file.stat)).st_size
        if size > MAX_VOICE_BYTES:
            raise NotTranscribed(
                f"it has {size / MEGABYTE:.1f} MB, more than {MAX_VOICE_BYTES / MEGABYTE:.0f}"
            )
        content = await off_loop(self._disk, file.read_bytes)
        headers = {"authorization": f"Bearer {self._key.reveal()}"} if self._key else {}
        secure = self._url.startswith("https://")
        try:
            async with httpx2.AsyncClient(
                timeout=SECONDS, verify=secure, transport=direct_transport(verify=secure)
            ) as client:
                answer = await client.post(
                    self._url,
                    headers=headers,
                    data={"model": self._model, "response_format": "json"},
                    files={"file": (file.name, content, media_type)},
                )
        except httpx2.HTTPError as cause:
            raise NotTranscribed(
                f"the transcription server can't be reached ({type(cause).__name__})"
            ) from cause
        if not answer.is_success:
            raise NotTranscribed(f"the transcription server answered with HTTP {answer.status_code}")
        return _words(answer)


def _words(answer: httpx2.Response) -> str:
    try:
        found = answer.json()
    except ValueError as cause:
        raise NotTranscribed("the transcription server's answer is not JSON") from cause
    text = found.get("text") if isinstance(found, dict) else None
    if not isinstance(text, str):
        raise NotTranscribed("the transcription server's answer has no text")
    if not text.strip():
        raise NotTranscribed("no words were found in it")
    return text.strip()[:MAX_TRANSCRIPT]
