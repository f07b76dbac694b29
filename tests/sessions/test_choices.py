"""What a person chose for conversations, folders and prompts, on both engines."""

import pytest

from holdfast.core.errors import InvalidInput, SessionNotFound
from holdfast.sessions import SessionDB
from holdfast.sessions.contract import ConversationChoice
from tests.sessions.store_fixtures import completed_turn


def test_a_choice_belongs_to_the_whole_conversation_and_to_its_branches(db: SessionDB) -> None:
    db.create_session("s", source="cli")
    completed_turn(db, "s")
    assert db.choices.get("s") == ConversationChoice()
    db.choices.put_folder("garden", "/work/garden")
    db.choices.choose("s", model=" large ", folder="garden")
    db.choices.choose("s", workspace="/work/house")
    chosen = ConversationChoice("large", "/work/house", "garden")
    assert db.choices.get("s") == chosen
    db.conversations.branch("s", "b")
    db.conversations.branch("b", "bb")
    assert db.choices.get("bb") == chosen
    assert db.conversations.find("bb").choice == chosen
    db.choices.choose("b", model="")
    assert db.choices.get("b").model == ""
    assert db.choices.get("s").model == "large"


def test_a_folder_lists_its_conversations_and_goes_without_them(db: SessionDB) -> None:
    for name in ("a", "b", "c"):
        db.create_session(name, source="cli")
    db.choices.choose("a", folder="garden")
    db.choices.choose("c", folder="garden")
    assert {each.root_id for each in db.conversations.in_folder("garden")} == {"a", "c"}
    assert len(db.conversations.in_folder("garden", limit=1, offset=1)) == 1
    [folder] = db.choices.folders()
    assert (folder.name, folder.conversations) == ("garden", 2)
    db.delete_session("c")
    assert [each.conversations for each in db.choices.folders()] == [1]
    db.choices.put_folder("garden", "/work/garden")
    db.choices.put_folder("house")
    with pytest.raises(InvalidInput, match="already"):
        db.choices.rename_folder("garden", "house")
    assert not db.choices.rename_folder("nothing", "something")
    assert db.choices.rename_folder("garden", " Garten & Haus ")
    assert db.choices.get("a").folder == "Garten & Haus"
    moved = db.choices.folder("Garten & Haus")
    assert moved is not None
    assert (moved.workspace, moved.conversations) == ("/work/garden", 1)
    assert db.choices.rename_folder("Garten & Haus", "garden")
    assert db.choices.remove_folder("garden")
    assert not db.choices.remove_folder("garden")
    assert db.choices.get("a") == ConversationChoice()
    assert len(db.conversations.list()) == 2


def test_prompts_are_kept_by_name(db: SessionDB) -> None:
    db.choices.put_prompt("review", "look at it")
    db.choices.put_prompt(" review ", "look at it closely")
    db.choices.put_prompt("plan", "100 % of it: a plan, 'quoted'")
    assert [(each.name, each.text) for each in db.choices.prompts()] == [
        ("plan", "100 % of it: a plan, 'quoted'"),
        ("review", "look at it closely"),
    ]
    assert db.choices.remove_prompt("plan")
    assert not db.choices.remove_prompt("plan")


@pytest.mark.parametrize("bad", ["two\nlines", "x" * 5000, "nul\0"])
def test_what_cannot_be_chosen_is_refused_and_changes_nothing(db: SessionDB, bad: str) -> None:
    db.create_session("s", source="cli")
    for change in ({"model": bad}, {"workspace": bad}, {"folder": bad}):
        with pytest.raises(InvalidInput):
            db.choices.choose("s", **change)
    with pytest.raises(InvalidInput):
        db.choices.put_folder(bad)
    with pytest.raises(InvalidInput):
        db.choices.put_prompt(bad, "text")
    with pytest.raises(InvalidInput):
        db.choices.put_prompt("name", " ")
    with pytest.raises(SessionNotFound):
        db.choices.choose("nobody", model="x")
    assert db.choices.get("s") == ConversationChoice()
    assert not db.choices.folders()
