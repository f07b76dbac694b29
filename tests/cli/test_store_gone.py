"""A store that is gone under a chat in a terminal: it is said, and what was typed is not taken for stored."""

import pytest

from tests.cli.real_terminal import Home


@pytest.mark.slow
@pytest.mark.clause("D12")
def test_a_chat_whose_database_was_moved_away_says_so_and_goes_on_when_it_is_back(home: Home) -> None:
    home.settings["HOLDFAST_MEMORY_PROVIDERS"] = ""
    home.script(["Noted.", "Again."])
    place, away = home.database.parent, home.folder / "away"
    terminal = home.terminal("chat")
    terminal.see("ready")
    terminal.type("first")
    terminal.see("Noted.", "ready")
    place.rename(away)
    terminal.type("second")
    terminal.see("was deleted or moved away while Holdfast uses it", "stored nothing")
    away.rename(place)
    terminal.type("third")
    terminal.see("Again.", "ready")
    assert terminal.leave() == 0
    assert home.said() == ["first", "third"]
