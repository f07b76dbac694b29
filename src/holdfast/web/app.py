"""`build_app`: the whole surface around one host."""

from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from holdfast import __version__
from holdfast.core.errors import HoldfastError
from holdfast.process.forwarded_headers import ForwardedHeaders
from holdfast.process.origin_guard import OriginGuard
from holdfast.web import problems
from holdfast.web.access import AccessGuard
from holdfast.web.auth import Auth
from holdfast.web.compat import chat_completions, embeddings, models, responses
from holdfast.web.contract import WebParts
from holdfast.web.limits import BodyLimit, RateLimit
from holdfast.web.page_files import PageFiles
from holdfast.web.request_log import RequestLog
from holdfast.web.routes import (
    changed_files,
    chats,
    choices,
    commands,
    events,
    health,
    memory,
    messages,
    search,
    sessions,
    settings,
    sign_in,
    usage,
    users,
)
from holdfast.web.sign_in.user_header import UserHeader
from holdfast.web.sign_in.ways import sign_in_ways

GROUPS = (
    chat_completions,
    sessions,
    messages,
    events,
    responses,
    models,
    embeddings,
    commands,
    search,
    changed_files,
    usage,
    memory,
    chats,
    choices,
    settings,
    users,
    sign_in,
    health,
)
"""Routes are searched in this order, so the busiest groups stand first."""
PAGE = Path(__file__).parent / "page"


class DescribedApp(FastAPI):
    """Adds to the description what routes don't show: the body of an error, and the token."""

    def openapi(self) -> dict[str, Any]:
        described = super().openapi()
        described["components"]["schemas"]["Problem"] = problems.Problem.model_json_schema()
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
        return described


def build_app(web: WebParts, page: Path = PAGE) -> FastAPI:
    """The application; everything it needs is in `web`."""
    app = DescribedApp(
        title="Holdfast",
        version=__version__,
        summary="An agent that keeps its word, over HTTP.",
        docs_url=None,
        redoc_url=None,
        servers=[{"url": web.settings.root_path or "/"}],
    )
    app.state.web = web
    ways = app.state.sign_in = sign_in_ways(web.settings, web.clock, web.host)
    web.host.watch(lambda event: web.metrics.record(event, web.clock.monotonic()))
    app.exception_handlers.update(
        {
            HoldfastError: problems.on_holdfast_error,
            HTTPException: problems.on_http_error,
            RequestValidationError: problems.on_invalid_request,
        }
    )
    for group in GROUPS:
        # The routes carry their prefixes, so `include_router` would only add work to each request.
        app.router.routes.extend(group.router.routes)
    files = PageFiles(page)
    for path in files.paths:
        app.add_api_route(path, files.answer, methods=["GET", "HEAD"], include_in_schema=False)
    # Each wraps the ones before it: the last is the outermost.
    app.add_middleware(BodyLimit, patience=web.settings.client_timeout_s)
    app.add_middleware(AccessGuard, host=web.host, routes=app.router.routes)
    app.add_middleware(Auth, web=web, pages=files.paths, ways=ways)
    if web.settings.allowed_origins:
        # Other origins may send headers, but never the cookie.
        app.add_middleware(
            CORSMiddleware,
            allow_origins=web.settings.allowed_origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["X-Request-ID", "X-Holdfast-Session"],
        )
    app.add_middleware(RateLimit, clock=web.clock, per_second=web.settings.requests_per_s)
    app.add_middleware(
        OriginGuard,
        bound=web.settings.host,
        hosts=web.settings.allowed_hosts,
        origins=web.settings.allowed_origins,
        refuse=problems.respond,
    )
    app.add_middleware(RequestLog, clock=web.clock, metrics=web.metrics)
    app.add_middleware(
        ForwardedHeaders, trusted=web.settings.trusted_proxies, root_path=web.settings.root_path
    )
    if web.settings.user_header:
        app.add_middleware(UserHeader, header=web.settings.user_header, trusted=web.settings.trusted_proxies)
    return app
