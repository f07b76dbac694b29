"""What is handed over is kept once, found again, and shown with its date within a budget."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import StoreClosed
from holdfast.providers.local import LocalMemory
from holdfast.providers.recall_text import estimated_tokens
from tests.fast_run import examples
from tests.providers.local.completed_turns import turn
from tests.providers.local.conftest import OpenMemory

PAINTING = turn(1, "I painted a sunrise over the lake", "What a lovely motif!")
TURTLES = turn(2, "My two turtles are called Pixel and Byte", "Nice names for turtles.")
ALLERGY = turn(1, "I am allergic to walnuts", "I will keep walnuts out of recipes.", session="s2")


def texts(memory: LocalMemory, query: str, **options: Any) -> list[str]:  # noqa: ANN401
    return [found.text for found in memory.search(query, **options)]


def test_a_turn_is_found_by_the_words_of_a_question(memory: LocalMemory) -> None:
    memory.sync_turns([PAINTING, TURTLES, ALLERGY])
    assert texts(memory, "What are the turtles called?")[0] == TURTLES.user_content


def test_a_turn_of_one_session_is_recalled_in_another(memory: LocalMemory) -> None:
    memory.sync_turns([PAINTING, ALLERGY])
    assert "allergic to walnuts" in memory.prefetch(
        "Suggest a cake, mind my allergy: allergic?", session_id="s9"
    )


@pytest.mark.clause("D2")
def test_a_turn_delivered_twice_is_stored_once(memory: LocalMemory) -> None:
    memory.sync_turns([PAINTING, TURTLES])
    memory.sync_turns([PAINTING, TURTLES, TURTLES])
    assert memory.describe().passages == 4
    assert texts(memory, "turtles called Pixel").count(TURTLES.user_content) == 1


@pytest.mark.clause("D2")
def test_a_turn_delivered_again_with_other_words_replaces_the_old_ones(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "I live in Oslo", "Noted."), TURTLES])
    memory.sync_turns([turn(1, "I live in Bergen")])
    assert texts(memory, "Oslo", mode="text") == []
    assert texts(memory, "Bergen")[0] == "I live in Bergen"
    assert "Noted." not in memory.prefetch("Noted")


def test_a_turn_without_a_key_that_comes_twice_is_stored_once(memory: LocalMemory) -> None:
    for _ in range(2):
        memory.sync_turn("I play the cello", "Since when?", session_id="s1", messages=[])
    assert memory.describe().passages == 2


def test_an_answer_is_found_by_the_words_of_the_question_before_it(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "Which hike did you like best?", "Besseggen, by far."), ALLERGY, TURTLES])
    assert "Besseggen, by far." in texts(memory, "best hike", limit=3)


def test_what_a_named_person_said_comes_before_what_others_said(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "Ann: my favourite tea is oolong"), turn(5, "Bob: my favourite tea is mint")])
    assert texts(memory, "Which tea is Bob's favourite?")[0] == "Bob: my favourite tea is mint"
    assert texts(memory, "Which tea is Ann's favourite?")[0] == "Ann: my favourite tea is oolong"


def test_a_turn_is_found_by_its_date_in_words(memory: LocalMemory) -> None:
    memory.sync_turns(
        [turn(1, "Went sailing", at=1_683_554_160.0), turn(2, "Went riding", at=1_655_000_000.0)]
    )
    assert texts(memory, "What happened in May 2023?")[0] == "Went sailing"


def test_the_block_says_when_each_thing_was_said(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "I painted a sunrise", at=1_683_554_160.0)])
    assert "[8 May 2023, 13:56] user: I painted a sunrise" in memory.prefetch("painted sunrise")


def test_the_block_shows_each_text_once(memory: LocalMemory) -> None:
    memory.sync_turns([turn(number, "Remind me of the dentist") for number in range(5)])
    memory.sync_turns([turn(9, "remind me  of the DENTIST", session="s3")])
    assert memory.prefetch("dentist").lower().count("dentist") == 1


@pytest.mark.parametrize("budget", [0, 20, 60, 200])
def test_the_block_keeps_within_its_budget(open_memory: OpenMemory, embedder: Any, budget: int) -> None:  # noqa: ANN401
    memory = open_memory(embedder, token_budget=budget)
    memory.sync_turns([turn(n, f"The garden has rose number {n} 🌹 " + "and roses " * n) for n in range(30)])
    block = memory.prefetch("garden roses")
    assert estimated_tokens(block) <= budget
    assert bool(block) == (budget >= 60)


def test_recall_leaves_out_the_turn_that_asked_just_this(memory: LocalMemory) -> None:
    question = "What are my turtles called?"
    memory.sync_turns([TURTLES, turn(3, question, "Let me look that up.")])
    assert question not in memory.prefetch(question, session_id="s1")
    assert "Let me look that up." not in memory.prefetch(question, session_id="s1")
    assert "Pixel" in memory.prefetch(question, session_id="s1")
    assert question in memory.prefetch(question, session_id="another")


def test_what_is_in_the_context_of_a_session_is_not_recalled_for_it(
    open_memory: OpenMemory,
    embedder: Any,  # noqa: ANN401
) -> None:
    memory = open_memory(embedder, turns_in_context=2)
    said = [turn(number, f"The garden has rose number{number}", "Lovely. " * 400) for number in range(4)]
    memory.sync_turns([*said, turn(9, "A rose in the garden, elsewhere", session="s2")])
    recalled = memory.prefetch("roses in the garden?", session_id="s1")
    assert [f"number{number}" in recalled for number in range(4)] == [True, True, False, False]
    assert "elsewhere" in recalled
    for other in ("s3", ""):
        everything = memory.prefetch("roses in the garden?", session_id=other)
        assert all(f"number{number}" in everything for number in range(4))
    found = {each.turn_id for each in memory.search("rose garden", 50)}
    assert found >= {each.turn_id for each in said}, "a search by a tool leaves nothing out"


def test_nothing_is_recalled_from_an_empty_memory(memory: LocalMemory) -> None:
    assert memory.prefetch("anything?") == ""


def test_a_long_text_is_found_by_its_end(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "Once upon a time. " * 300 + "The treasure lies under the oak.")])
    assert "treasure" in texts(memory, "Where is the treasure?")[0]


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("我喜欢吃北京烤鸭", "北京有什么"),
        ("東京に引っ越しました", "東京"),
        ("오늘 서울에서 만났어요", "서울"),
        ("we celebrated with 🎉 and 🍰", "🍰"),
        ("Köln ist schön", "koln"),
        ("naïve café", "CAFE"),
    ],
)
def test_any_script_is_found(memory: LocalMemory, said: str, asked: str) -> None:
    memory.sync_turns([PAINTING, turn(7, said, session="s7")])
    assert texts(memory, asked, mode="text") == [said]


@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(query=st.text(st.characters(codec=None)) | st.text('"*():^-+{}ANDORNOT near\x00\ud800'))
def test_no_question_raises(memory: LocalMemory, query: str) -> None:
    memory.sync_turns([PAINTING])
    memory.prefetch(query, session_id=query)
    memory.search(query)


def test_text_that_no_database_holds_is_kept_without_what_it_cannot_hold(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "half a \ud83d pair and a \x00 byte")])
    assert "pair and a" in texts(memory, "half pair byte")[0]


def test_an_empty_turn_is_taken_and_leaves_nothing(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "", "  ")])
    assert memory.describe().passages == 0


@pytest.mark.clause("D4")
def test_after_shutdown_nothing_is_taken(memory: LocalMemory) -> None:
    memory.sync_turns([PAINTING])
    memory.shutdown()
    memory.shutdown()
    memory.sync_turn("late", "word", session_id="s1", messages=[])
    with pytest.raises(StoreClosed):
        memory.sync_turns([TURTLES])


def test_the_tools_search_save_correct_and_forget(memory: LocalMemory) -> None:
    def call(tool: str, **arguments: object) -> Any:  # noqa: ANN401
        return json.loads(memory.handle_tool_call(tool, arguments))

    note = call("memory_save", text="The user prefers metric units")["saved"]
    assert call("memory_search", query="metric units")["found"][0]["id"] == note
    assert call("memory_correct", id=note, text="The user prefers imperial measures") == {"corrected": note}
    found = call("memory_search", query="which measures does the user prefer")["found"]
    assert [each["text"] for each in found] == ["The user prefers imperial measures"]
    assert call("memory_forget", id=note) == {"forgotten": note}
    assert call("memory_search", query="metric imperial measures units") == {"found": []}
    assert "error" in call("memory_forget", id=note)
    assert "error" in call("memory_correct", id=note, text="again")
    assert "error" in call("memory_save", text="")
    assert "error" in call("memory_search", quarry="typo")


def test_the_tools_are_offered_as_function_schemas(memory: LocalMemory) -> None:
    offered = {schema["function"]["name"]: schema["function"] for schema in memory.get_tool_schemas()}
    assert set(offered) == {"memory_search", "memory_save", "memory_correct", "memory_forget"}
    assert offered["memory_correct"]["parameters"]["required"] == ["id", "text"]


def test_a_note_is_recalled_in_the_block(memory: LocalMemory) -> None:
    note = memory.save_note("The cat's name is Miso")
    assert f"note {note}: The cat's name is Miso" in memory.prefetch("What is the cat's name?")


def test_the_description_says_when_recall_is_by_full_text_alone(open_memory: OpenMemory) -> None:
    description = open_memory(None).describe()
    assert "full text alone" in str(description)
    assert description.is_limited


def test_the_block_shows_a_sentence_once_whatever_its_punctuation_and_case(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "Remind me of the dentist, please!", session="s1")])
    memory.sync_turns([turn(2, "remind me of the dentist please", session="s2")])
    assert memory.prefetch("dentist").lower().count("dentist") == 1


def test_the_block_leaves_out_what_a_longer_line_contains(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "The dentist is Dr Molar", session="s1")])
    memory.sync_turns([turn(2, "Note it down: the dentist is Dr. Molar, in Mill Lane", session="s2")])
    block = memory.prefetch("Who is the dentist?")
    assert block.count("Molar") == 1
    assert "Mill Lane" in block


def test_the_block_reads_as_notes_first_and_each_conversation_in_its_order(memory: LocalMemory) -> None:
    memory.sync_turns([turn(n, f"Roses, part {n}: the garden needs {n} spades") for n in (1, 2, 3)])
    memory.sync_turns([turn(9, "Garden party with roses at Ann's", session="other")])
    note = memory.save_note("The garden is behind the house")
    lines = memory.prefetch("garden roses spades").splitlines()[1:]
    assert f"note {note}" in lines[0]
    places = [lines.index(next(each for each in lines if f"part {n}" in each)) for n in (1, 2, 3)]
    assert places == [places[0], places[0] + 1, places[0] + 2]


def test_where_a_fact_changed_the_older_line_says_so(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "I live in Oslo.", session="s1", at=1_600_000_000.0)])
    memory.sync_turns([turn(2, "I live in Bergen.", session="s2", at=1_700_000_000.0)])
    block = memory.prefetch("Where do I live?").splitlines()
    assert "a newer line says otherwise" in next(each for each in block if "Oslo" in each)
    assert "a newer line says otherwise" not in next(each for each in block if "Bergen" in each)


def test_the_same_words_of_two_people_do_not_contradict(memory: LocalMemory) -> None:
    memory.sync_turns([turn(1, "Ann: I live in Oslo.", session="s1", at=1_600_000_000.0)])
    memory.sync_turns([turn(2, "Bob: I live in Bergen.", session="s2", at=1_700_000_000.0)])
    assert "says otherwise" not in memory.prefetch("live in Oslo or Bergen")


def test_what_an_answer_used_is_counted(memory: LocalMemory) -> None:
    memory.sync_turns([TURTLES, PAINTING])
    question = "What are my turtles called?"
    memory.prefetch(question, session_id="s9")
    memory.sync_turns([turn(1, question, "They are called Pixel and Byte.", session="s9")])
    uses = {each.text: (each.shown, each.used) for each in memory.browse("turtles painted", 10)}
    assert uses["My two turtles are called Pixel and Byte"] == (1, 1)
    assert uses["Nice names for turtles."] == (1, 0)
    memory.sync_turns([turn(1, question, "They are called Pixel and Byte.", session="s9")])
    assert memory.browse("turtles", 1)[0].used <= 1


def test_a_forgotten_passage_takes_its_counters_along(memory: LocalMemory, path: Path) -> None:
    memory.sync_turns([TURTLES])
    question = "What are my turtles called?"
    memory.prefetch(question, session_id="s9")
    memory.sync_turns([turn(1, question, "Pixel and Byte.", session="s9")])
    for each in memory.browse("turtles", 10):
        memory.forget(each.id)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from passage_uses").fetchone() == (0,)
