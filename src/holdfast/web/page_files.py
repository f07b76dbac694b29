"""Serves the page's files from memory, compressed once, with tags for the browser's cache.

A path is looked up among the files of the folder, so no path leads out of it.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

SMALLEST = 500
"""Files below this size in bytes are not compressed."""
TYPES = {".js": "text/javascript", ".mjs": "text/javascript", ".webmanifest": "application/manifest+json"}
HIDDEN = (".md", ".json", ".py", ".toml")
"""Files beside the page that are not served."""
LIBRARIES = "lib/manifest.json"
PREVIEW = "/preview.html"
PREVIEW_POLICY = {
    # Whatever is drawn there runs in an origin of its own, and can reach nothing: no network, no storage.
    "Content-Security-Policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'",
    "X-Frame-Options": "SAMEORIGIN",
}
NO_LIBRARIES = (
    "The web page cannot be shown: its libraries are not installed. In a checkout, run `make sync` and start "
    "the server again; an installed package carries them, so install it again. The HTTP API works without it."
)


@dataclass(frozen=True, slots=True)
class PageFile:
    content: bytes
    compressed: bytes
    tag: str
    kind: str
    changed: int


def page_problem(folder: Path) -> str:
    """What keeps the page in this folder from being shown; empty when nothing does."""
    return "" if (folder / LIBRARIES).is_file() else NO_LIBRARIES


class PageFiles:
    """Everything below one folder; `/` is its `index.html`."""

    def __init__(self, folder: Path) -> None:
        self._paths = {
            f"/{each.relative_to(folder).as_posix()}": each
            for each in sorted(folder.rglob("*"))
            if each.is_file() and each.suffix not in HIDDEN
        }
        if "/index.html" in self._paths:
            self._paths["/"] = self._paths["/index.html"]
        self._problem = page_problem(folder)
        self._read: dict[str, PageFile] = {}

    @property
    def paths(self) -> Collection[str]:
        return self._paths.keys()

    async def answer(self, request: Request) -> Response:
        """The file at the request's path, or 304 when the browser has it."""
        if self._problem:
            return PlainTextResponse(self._problem, status_code=503)
        file = self._file(request.scope["path"])
        headers = {"ETag": file.tag, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}
        if request.scope["path"] == PREVIEW:
            headers |= PREVIEW_POLICY
        if file.tag in (each.strip() for each in request.headers.get("if-none-match", "").split(",")):
            return Response(status_code=304, headers=headers)
        content = file.content
        if len(file.compressed) < len(content) and "gzip" in request.headers.get("accept-encoding", ""):
            content = file.compressed
            headers["Content-Encoding"] = "gzip"
        return Response(content, headers=headers, media_type=file.kind)

    def _file(self, path: str) -> PageFile:
        place = self._paths[path]
        changed = place.stat().st_mtime_ns
        file = self._read.get(path)
        if file is None or file.changed != changed:
            content = place.read_bytes()
            compressed = gzip.compress(content, mtime=0) if len(content) >= SMALLEST else content
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            kind = (
                TYPES.get(place.suffix) or mimetypes.guess_type(place.name)[0] or "application/octet-stream"
            )
            file = self._read[path] = PageFile(content, compressed, tag, kind, changed)
        return file
