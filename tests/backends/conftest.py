"""The real servers, started once for all their tests, and the two providers on them under one face."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.backends.model import RuleModel
from tests.backends.proxy import door
from tests.backends.servers import HindsightServer, OpenVikingServer
from tests.postgres_server import own_server
from tests.providers.servers.memory_servers import MAKERS, Backend


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave these tests out unless they are asked for with `-m`: few machines have the servers."""
    if config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("backends")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


@dataclass(frozen=True)
class Real:
    """A real server, and its provider as the tests use it."""

    server: HindsightServer | OpenVikingServer
    backend: Backend


@pytest.fixture(scope="session")
def model() -> Iterator[RuleModel]:
    with RuleModel() as serving:
        yield serving


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    with own_server() as postgres:
        yield postgres.url


@pytest.fixture(scope="session")
def hindsight(
    model: RuleModel, database: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HindsightServer]:
    server = HindsightServer(tmp_path_factory.mktemp("hindsight"), database, model.base_url)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def openviking(model: RuleModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenVikingServer]:
    server = OpenVikingServer(tmp_path_factory.mktemp("openviking"), model.base_url)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(params=["hindsight", "openviking"])
def real(request: pytest.FixtureRequest) -> Iterator[Real]:
    """A real server behind a door that can fail, with a bank and a session of this test alone."""
    server = request.getfixturevalue(request.param)
    with door(server.url) as front:
        name = uuid.uuid4().hex[:8]
        if isinstance(server, HindsightServer):
            backend = Backend(
                server.name,
                front,
                MAKERS[server.name],
                lambda session: spoken(server.document(f"bank-{name}", session)),
                "/memories HTTP",
            )
        else:
            backend = Backend(
                server.name,
                front,
                MAKERS[server.name],
                lambda session: [text for text in server.live(session) if not text.startswith("You said")],
                "/messages/batch",
            )
        backend.key, backend.bank, backend.session = server.key, f"bank-{name}", f"session-{name}"
        backend.timeout_s = 20.0
        yield Real(server, backend)


def spoken(transcript: str) -> list[str]:
    """What a user said, in a transcript of turns."""
    lines = [line.strip() for line in transcript.splitlines()]
    return [line.removeprefix("user: ") for line in lines if line.startswith("user: ")]
