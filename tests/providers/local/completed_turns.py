"""Completed turns for tests."""

from holdfast.memory import CompletedTurn


def turn(
    number: int, user: str, assistant: str = "", *, session: str = "s1", at: float = 0.0
) -> CompletedTurn:
    """A completed turn of a session, with its stable key."""
    return CompletedTurn(
        key=f"{session}/{number}",
        session_id=session,
        turn_id=f"{session}-t{number}",
        user_content=user,
        assistant_content=assistant,
        messages=[],
        completed=at or 1_683_554_160.0 + 60 * number,
    )
