"""`POST /v1/embeddings`: texts as vectors, by the embedding model of the local memory."""

import base64
import struct
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import Field

from holdfast.web.bodies import LenientBody
from holdfast.web.compat.client_tools import refusal
from holdfast.web.contract import HostDep
from holdfast.web.problems import openai_error_responses

router = APIRouter(prefix="/v1", tags=["openai"])

MOST_TEXTS, MOST_CHARACTERS = 128, 100_000
LETTERS_PER_TOKEN = 4
EmbeddedText = Annotated[str, Field(min_length=1, max_length=MOST_CHARACTERS)]


class EmbeddingRequest(LenientBody):
    model: str = Field(default="", description="any name is taken; the local memory's model answers")
    input: EmbeddedText | Annotated[list[EmbeddedText], Field(min_length=1, max_length=MOST_TEXTS)]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None


@router.post("/embeddings", responses=openai_error_responses(400, 422, 503))
async def embed(host: HostDep, body: EmbeddingRequest) -> dict[str, Any]:
    """The texts as vectors, in their order."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    made = await host.memory.embed(texts)
    size = len(made.vectors[0])
    if body.dimensions not in (None, size):
        raise refusal("dimensions", f"{made.model} makes {size} dimensions.", "Leave out `dimensions`.")
    tokens = sum(-(-len(text) // LETTERS_PER_TOKEN) for text in texts)
    return {
        "object": "list",
        "model": made.model,
        "data": [
            {"object": "embedding", "index": place, "embedding": _encoded(vector, body.encoding_format)}
            for place, vector in enumerate(made.vectors)
        ],
        # The model counts none; this is about how many they are.
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _encoded(vector: Any, encoding: str) -> Any:  # noqa: ANN401 - a list, or its bytes as text
    if encoding == "float":
        return vector
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
