"""`/api/usage`: how many tokens were used and what they cost."""

from typing import Annotated

from fastapi import APIRouter, Query

from holdfast.host.usage_reports import MOST_DAYS, Grouping, UsageReport, UsageTotal
from holdfast.web.contract import HostDep
from holdfast.web.principal import PrincipalDep
from holdfast.web.problems import error_responses

router = APIRouter(prefix="/api", tags=["usage"])


@router.get("/usage", responses=error_responses(422))
async def read_usage(
    host: HostDep,
    principal: PrincipalDep,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS, description="today and the days before it")] = 30,
    by: Annotated[Grouping, Query(description="what each line is about")] = "day",
) -> UsageReport:
    """What was used in the last days. A cost that is not known is null, never 0."""
    return await host.usage.report(days, by, scope=principal.sees)


@router.get("/sessions/{session_id}/usage", responses=error_responses(404, 422))
async def read_session_usage(host: HostDep, session_id: str) -> UsageTotal:
    """What a conversation has used so far, with its subagents and summaries."""
    return await host.usage.conversation(session_id)
