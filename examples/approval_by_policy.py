"""A tool that needs approval, and a policy that decides about each call."""

import asyncio

from holdfast import Agent, AgentOptions, ApprovalRequest, ToolContext, ToolResult, tool


@tool(needs_approval=True)
def refund(order: int, amount: float) -> str:
    """Pay an order back."""
    return f"{amount:.2f} euros of order {order} are paid back"


async def small_amounts(request: ApprovalRequest) -> bool | None:
    """True allows the call, False refuses it, None asks the person (nobody, for an agent alone)."""
    if request.kind != "refund":
        return None
    return bool(request.arguments["amount"] <= 50)


async def log(name: str, result: ToolResult, context: ToolContext) -> None:
    print(f"{name} in {context.session_id}: {result.text}")


async def main() -> None:
    options = AgentOptions(system_prompt="You answer for a shop.", approve=small_amounts, after_tool=log)
    async with Agent("openai:gpt-5-mini", tools=[refund], session="shop", options=options) as agent:
        print((await agent.run("Order 7 was broken, please pay back 20 euros.")).final_response)
        print((await agent.run("And order 8, 2000 euros.")).final_response)


asyncio.run(main())
