"""What came of a scheduled run is told in its chat; the run and its delivery are states of their own."""

import pytest

from holdfast.process import run
from holdfast.sessions import SessionDB
from holdfast.sessions.schedules import NewSchedule, ScheduledRun
from holdfast.testing.memory_platform import MemoryPlatform
from tests.agent.agent_fixtures import until
from tests.gateway.gateway_fixtures import ACCOUNT, a_gateway, let_in, traits, until_said

pytestmark = pytest.mark.soak_cases("postgres")  # the store's own suite tries both engines


@pytest.mark.clause("G8")
@pytest.mark.parametrize("refused", [False, True], ids=["delivered", "refused"])
def test_a_scheduled_run_is_done_once_and_its_delivery_says_whether_the_platform_has_it(
    db: SessionDB, *, refused: bool
) -> None:
    async def scenario() -> None:
        platform = MemoryPlatform(traits())
        let_in(db, "ada")
        place = await platform.direct("ada")
        async with a_gateway(db, platform) as (_, host):
            await platform.say(place, "ada", "hello")
            await until_said(platform, place, "You said: hello")
            (room,) = db.chat_events.rooms(ACCOUNT)
            added = db.schedules.add(NewSchedule("look", "every day at 5:00", "UTC", room=str(room.id)))
            if refused:
                await platform.fail("refuse")
            host.serve_schedules()
            db.schedules.run_now(added.id)

            def now() -> ScheduledRun:
                (only,) = db.schedules.runs(added.id)
                return only

            await until(lambda: now().delivery in ("sent", "failed"))
            assert now().state == "done"
            assert now().delivery == ("failed" if refused else "sent")
            said = [each.text for each in platform.seen(place) if each.by_bot]
            assert len(said) == (1 if refused else 2)
            assert refused or said[-1].endswith("look")
            assert len(db.chat_posts.failed(ACCOUNT)) == refused

    run(scenario())
