"""The page about the way of a message shows what a turn really does."""

import pytest

from tools.message_path import ARCHITECTURE, PAGE, Recording, picture, record, table

MOST_GENERATORS = 3
MOST_CALLS = 25


@pytest.fixture(scope="module")
def recording() -> Recording:
    return record()


def test_the_page_shows_every_call_between_rooms_of_one_message(recording: Recording) -> None:
    # Threads may take turns in another order each time.
    shown = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    assert sorted(shown) == sorted(table(recording)), "run: python -m tools.message_path"


def test_the_architecture_shows_the_same_calls(recording: Recording) -> None:
    shown = [line for line in ARCHITECTURE.read_text(encoding="utf-8").splitlines() if "->>" in line]
    drawn = [line for line in picture(recording).splitlines() if "->>" in line]
    assert sorted(shown) == sorted(drawn), "run: python -m tools.message_path"


def test_a_message_changes_rooms_only_so_often(recording: Recording) -> None:
    assert len([each for each in recording.crossings if not each.is_delivery]) <= MOST_CALLS


def test_a_piece_of_text_passes_few_generators_between_the_model_and_a_surface(recording: Recording) -> None:
    assert 0 < len(recording.generators) <= MOST_GENERATORS
