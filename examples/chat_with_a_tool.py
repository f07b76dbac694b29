"""Talk with an agent that has one tool: a plain function with types and a docstring."""

import asyncio

from holdfast import Agent, events


def rate(currency: str) -> float:
    """The price of one unit of a currency in euros.

    Args:
        currency: its code, such as USD.

    """
    return {"USD": 0.92, "GBP": 1.17}[currency]


async def main() -> None:
    async with Agent("openai:gpt-5-mini", tools=[rate]) as agent:
        async for event in agent.stream("What are 3 USD in euros?"):
            if isinstance(event, events.ToolFinished):
                print(f"[{event.name}: {event.output}]")
            if isinstance(event, events.TextDelta):
                print(event.text, end="", flush=True)
        print()


asyncio.run(main())
