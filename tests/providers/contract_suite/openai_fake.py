"""A language model and embeddings over HTTP, for a memory that extracts: facts are what the user said."""

import hashlib
import json
import re
from typing import Any

from holdfast.testing.http_server import HttpRequest
from tests.providers.contract_suite.threaded_backend import Reply, ThreadedBackend

DIMENSIONS = 64
WORD = re.compile(r"\w+")
NEW = re.compile(r"## New Messages\n(.*?)\n\n## Observation Date", re.DOTALL)


class FakeOpenAI:
    """`garbage` makes the model answer with what is no JSON."""

    def __init__(self) -> None:
        self.garbage = False
        self.backend = ThreadedBackend(self._reply)

    def _reply(self, request: HttpRequest) -> Reply:
        body = request.json() if request.body else {}
        if request.path.endswith("/embeddings"):
            texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
            data = [
                {"object": "embedding", "index": number, "embedding": embedded(text)}
                for number, text in enumerate(texts)
            ]
            return 200, {"object": "list", "model": "fake", "data": data, "usage": _usage()}
        if request.path.endswith("/chat/completions"):
            said = "I would rather not." if self.garbage else json.dumps({"memory": facts(body["messages"])})
            message = {"role": "assistant", "content": said}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return 200, {
                "id": "c",
                "object": "chat.completion",
                "created": 0,
                "model": "fake",
                "choices": [choice],
                "usage": _usage(),
            }
        return 404, {"error": {"message": "no such route"}}


def facts(messages: list[dict[str, Any]]) -> list[dict[str, str]]:
    """One fact for what the user said in the new messages."""
    # The instructions before it have sections of the same names.
    prompt = str(messages[-1]["content"])
    found = NEW.search(prompt)
    new = found[1] if found else prompt
    user = new.partition("assistant:")[0].replace("user:", "", 1).strip().strip('"')
    return [{"text": user[:20_000]}] if user else []


def embedded(text: str) -> list[float]:
    """Texts that share words are near each other."""
    vector = [0.0] * DIMENSIONS
    for word in WORD.findall(text.lower()):
        place = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "big") % DIMENSIONS
        vector[place] += 3.0 if len(word) > 7 else 0.3
    norm = sum(each * each for each in vector) ** 0.5 or 1.0
    return [each / norm for each in vector] if any(vector) else [1.0, *vector[1:]]


def _usage() -> dict[str, int]:
    return {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
