"""`make bench-model`: the embedded model's load time, time to the first token, and tokens a second.

python -m bench.embedded               the small model that comes with Holdfast
python -m bench.embedded FILE          any GGUF file
python -m bench.embedded --rounds 9    more rounds; each figure is the median, with the worst beside it

Cold: nothing is loaded, and the first token waits for the worker, the file and the prompt. Warm: the file is
loaded and the question is new. Cancelled: from closing an answer in the middle to the next one's first token.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from statistics import median

from holdfast.core.errors import ModelMissing
from holdfast.models.contract import Finished, ModelRequest, TextPiece
from holdfast.models.embedded import open_embedded, open_gguf, threads_to_use
from holdfast.models.gguf import GgufModel

QUESTIONS = (
    "What is the capital of France?",
    "How many days are in a week?",
    "Who wrote Romeo and Juliet?",
    "Name three colours of the rainbow.",
    "What do bees make?",
)
STORY = "Tell me a long story about a lighthouse and its keeper."
SPEAK = 100
Opened = Callable[[], GgufModel]


def asking(text: str, most: int) -> ModelRequest:
    return ModelRequest("", [{"role": "user", "content": text}], max_output_tokens=most)


async def first_token(model: GgufModel, text: str) -> float:
    """Seconds to the first piece of text; the rest is not waited for."""
    began = time.perf_counter()
    async with aclosing(model.stream(asking(text, SPEAK))) as stream:
        async for piece in stream:
            if isinstance(piece, TextPiece):
                break
    return time.perf_counter() - began


async def tokens_a_second(model: GgufModel) -> float:
    """From the first token of an answer to its last."""
    began = 0.0
    async for piece in model.stream(asking(STORY, SPEAK)):
        began = began or time.perf_counter()
        if isinstance(piece, Finished) and piece.usage is not None:
            return (piece.usage.output - 1) / (time.perf_counter() - began)
    raise RuntimeError("the answer had no end")


async def one_round(opened: Opened, number: int) -> dict[str, float]:
    question = QUESTIONS[number % len(QUESTIONS)]
    cold = opened()
    measured = {"cold: first token, s": await first_token(cold, question)}
    await cold.close()
    model = opened()
    began = time.perf_counter()
    await model.warm_up()
    measured["load, s"] = time.perf_counter() - began
    measured["warm: first token, s"] = await first_token(model, question)
    # The answer above was cut off after its first token, so this one begins behind a cancellation.
    measured["cancelled: next first token, s"] = await first_token(model, f"{number}? {question}")
    measured["tokens a second"] = await tokens_a_second(model)
    await model.close()
    return measured


async def measure(opened: Opened, rounds: int) -> dict[str, list[float]]:
    all_rounds = [await one_round(opened, number) for number in range(rounds)]
    return {name: [each[name] for each in all_rounds] for name in all_rounds[0]}


def report(name: str, measured: dict[str, list[float]]) -> str:
    lines = [
        f"{name}, {threads_to_use()} threads, load average {os.getloadavg()[0]:.1f}",
        "| | median | worst |",
        "|---|---|---|",
    ]
    for what, values in measured.items():
        worst = min(values) if what == "tokens a second" else max(values)
        lines.append(f"| {what} | {median(values):.2f} | {worst:.2f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()

    def opened() -> GgufModel:
        return open_gguf(chosen.file) if chosen.file else open_embedded(Path())

    try:
        print(report(opened().traits.name, asyncio.run(measure(opened, chosen.rounds))))
    except ModelMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
