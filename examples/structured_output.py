"""An answer as data: a pydantic model, checked; the model is asked again when it doesn't fit."""

from pydantic import BaseModel, Field

from holdfast import Agent, errors


class Invoice(BaseModel):
    number: str
    total: float = Field(ge=0)
    currency: str = Field(pattern="[A-Z]{3}")


LETTER = "Please pay invoice A-7 over 12.50 euros by Friday."

with Agent("openai:gpt-5-mini") as agent:  # no async code: the agent lives on a thread of its own
    try:
        invoice = agent.run_sync(f"Read this letter: {LETTER}", result_type=Invoice).output
        print(f"{invoice.number}: {invoice.total:.2f} {invoice.currency}")
    except errors.ResultDoesNotFit as problem:
        print(f"No invoice: {problem.problem}")
