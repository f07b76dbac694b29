"""The made-up chats that recall is measured on."""

from bench.made_chats import made_chats
from bench.recall import spoken_at


def test_the_same_chats_are_made_each_time() -> None:
    assert made_chats(2) == made_chats(2)


def test_every_question_has_its_evidence_in_the_chat() -> None:
    for chat in made_chats(4):
        known = {turn["id"] for turn in chat["turns"]}
        assert len(known) == len(chat["turns"])
        assert all(each["evidence"] and known.issuperset(each["evidence"]) for each in chat["questions"])


def test_a_question_about_several_things_has_evidence_in_several_sessions() -> None:
    several = [each for chat in made_chats(2) for each in chat["questions"] if each["category"] == 1]
    assert several
    assert all(len({one.split(":")[0] for one in each["evidence"]}) > 1 for each in several)


def test_the_dates_can_be_read_and_go_forward() -> None:
    for chat in made_chats(2):
        times = [spoken_at(turn["date"]) for turn in chat["turns"]]
        assert times == sorted(times)
