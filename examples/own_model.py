"""A model of one's own: an object with `traits`, `stream` and `close`."""

import asyncio
from collections.abc import AsyncGenerator

from holdfast import Agent, Finished, ModelPiece, ModelRequest, ModelTraits, TextPiece, Usage


class Parrot:
    """Says the last message again. A real one would call a server and raise errors.ModelFailure."""

    traits = ModelTraits(name="parrot", context_window=8_000, calls_tools=False, summarises=False)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelPiece, None]:
        words = str(request.messages[-1]["content"]).split()
        for word in words:
            yield TextPiece(f"{word} ")
        yield Finished("stop", Usage(input=len(words), output=len(words)))

    async def close(self) -> None:
        pass


async def main() -> None:
    async with Agent(Parrot(), store="sqlite:///parrot.db", session="cage") as agent:
        result = await agent.run("Polly wants a cracker")
        print(result.final_response.strip(), f"({result.usage.output} tokens)")


asyncio.run(main())
