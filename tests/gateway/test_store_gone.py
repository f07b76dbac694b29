"""A store that is gone under a gateway: nothing is acknowledged to the platform, and nothing is lost."""

from pathlib import Path

import pytest

from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.testing.memory_chats import MemoryOptions
from holdfast.testing.memory_platform import MemoryPlatform
from tests.agent.agent_fixtures import until
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits, until_said


@pytest.mark.clause("D12", "G1")
def test_a_message_is_not_acknowledged_while_the_store_is_gone_and_is_answered_when_it_is_back(
    tmp_path: Path,
) -> None:
    place, away = tmp_path / "store", tmp_path / "away"

    async def scenario() -> None:
        platform = MemoryPlatform(traits(), options=MemoryOptions(redelivers=True))
        server = platform.server
        with SessionDB(place / "holdfast.db") as db:
            let_in(db, "ada")
            ada = await platform.direct("ada")
            async with a_gateway(db, platform) as (gateway, _):
                health = gateway.accounts[ACCOUNT].health
                await platform.say(ada, "ada", "one")
                await until_said(platform, ada, "You said: one")
                assert server.acknowledged == len(server.events)
                place.rename(away)
                await platform.say(ada, "ada", "two")
                await until(lambda: "moved away" in health.detail)
                assert server.acknowledged == len(server.events) - 1
                away.rename(place)
                await until_said(platform, ada, "You said: one", "You said: two")
                await until(lambda: health.state == "connected")
                assert server.acknowledged == len(server.events)

    run(scenario())
