"""Two hundred conversations at once, on one host and one store."""

import asyncio

from holdfast import AgentOptions, Host, Pools, SessionDB

SESSIONS = 200


async def main() -> None:
    # With PostgreSQL: SessionDB.open("postgresql://…", connections=30)
    with SessionDB("many.db") as db:
        options = AgentOptions(pools=Pools(store_threads=8, tool_threads=8))
        async with Host(model="openai:gpt-5-mini", store=db, options=options, agents=SESSIONS) as host:
            asked = [host.ask(f"visitor-{number}", "Hello!") for number in range(SESSIONS)]
            answers = await asyncio.gather(*asked)
        print(f"{sum(bool(each.final_response) for each in answers)} answers")
        print(f"{len(db.get_messages('visitor-0'))} messages in each session")


asyncio.run(main())
