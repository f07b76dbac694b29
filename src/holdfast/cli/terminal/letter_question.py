"""`LetterQuestion`: the terminal's own questions, answered by a letter, one at a time."""

import asyncio
from collections.abc import Callable


class LetterQuestion:
    """The question that is open, if any. Used on the loop's thread only."""

    def __init__(self, refresh: Callable[[], None]) -> None:
        """`refresh` is called when a question opens or closes."""
        self._refresh = refresh
        self._asking = asyncio.Lock()  # one question at a time
        self._open: tuple[str, dict[str, str], asyncio.Future[str]] | None = None

    @property
    def mark(self) -> str:
        """The words of the open question; empty when there is none."""
        return "" if self._open is None else self._open[0]

    async def ask(self, mark: str, choices: dict[str, str]) -> str:
        """Ask for one of a few letters. Any other line chooses the last one and is handled as typed."""
        async with self._asking:
            answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            self._open = (mark, choices, answer)
            self._refresh()
            try:
                return await answer
            finally:
                self._open = None
                self._refresh()

    def answer(self, text: str) -> bool:
        """Answer the open question with a typed line; returns whether the line was an answer."""
        if self._open is None:
            return False
        _, choices, answer = self._open
        self._open = None
        word = text.strip().lower()
        found = next((value for key, value in choices.items() if word in (key, value)), None)
        if not answer.done():
            answer.set_result(found or list(choices.values())[-1])
        return found is not None
