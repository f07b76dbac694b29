"""A web service with a host inside: `uvicorn fastapi_app:app`.

POST /chat/NAME with {"text": "..."} waits for the answer; GET /chat/NAME/events streams what happens.
"""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from holdfast import Host, errors


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    async with Host(model="openai:gpt-5-mini", store="sqlite:///web.db", after_crash="resume") as host:
        app.state.host = host
        yield


app = FastAPI(lifespan=lifespan)


class Said(BaseModel):
    text: str


@app.post("/chat/{name}")
async def chat(name: str, said: Said, request: Request) -> dict[str, str]:
    try:
        answer = await request.app.state.host.ask(name, said.text)
    except errors.TurnError as problem:
        raise HTTPException(502, str(problem)) from problem
    return {"answer": answer.final_response}


@app.get("/chat/{name}/events")
async def events(name: str, request: Request) -> StreamingResponse:
    async def lines() -> AsyncGenerator[str, None]:
        async for event in request.app.state.host.follow(name):
            yield f"data: {json.dumps(event.to_json())}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")
