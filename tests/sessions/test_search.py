"""Search: any string is a query, hits come with their place, and each text is found once."""

from typing import Any, cast

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from holdfast.core.errors import SessionNotFound
from holdfast.core.ids import new_id
from holdfast.sessions import Filters, SearchHit, SessionDB
from holdfast.sessions.search import parse_query
from tests.fast_run import examples
from tests.sessions.databases import Database
from tests.sessions.store_fixtures import assistant, completed_turn, user

NASTY = [
    "",
    " ",
    "\x00",
    "\x00\x00 a\x00b",
    '"',
    '""',
    '"""',
    '"open',
    'close"',
    '"a" "b',
    "'",
    "''",
    "a AND b",
    "AND",
    "OR OR",
    "NOT x",
    "-x",
    "NEAR(a b, 3)",
    "NEAR/2",
    "content : x",
    "content:x",
    "{a b}: c",
    "^start",
    "pre*",
    "*",
    "**",
    "(",
    "((a)",
    "a | b & !c <-> d",
    "a:*",
    "!",
    "&",
    "|",
    "\\",
    "a\\'b",
    "%",
    "_",
    "100%",
    "; drop table messages; --",
    "?",
    ":words",
    "%(words)s",
    "$1",
    "+-*/=<>[]{}~`@#^",
    "…—\u2013«»“”",
    "🎉",
    "🎉 party",
    "👩‍👩‍👧‍👦",
    "🇩🇪",
    "日本語",
    "東京タワー 高い",
    "คนไทย",
    "مرحبا بالعالم",
    "\u202eש\u05dc\u05d5ם",
    "naïve café",
    "e\u0301",
    "\u0301",
    "ß ẞ ﬁ ǅ",
    "İstanbul \u0131I",
    "हिन्दी",
    "\ufeff",
    "\u200b",
    "\ue000",
    "\U000e0041",
    "\ud800",
    "a\udfffb",
    "\x02\x03",
    "C++",
    "/etc/passwd",
    "snake_case_name",
    "foo.bar(baz)[0]->qux::quux",
    "user@example.com",
    "3.14159",
    "1e999",
    "a" * 10_000,
    "word " * 2_000,
    '"' * 10_000,
    "🎉" * 10_000,
    "日" * 10_000,
    "(" * 10_000,
    "a-b_c." * 1_600,
    "%" * 10_000,
]


@pytest.fixture
def session(db: SessionDB) -> str:
    return db.create_session("s", source="cli", title="A talk").id


def places(hits: list[SearchHit]) -> set[tuple[str, int]]:
    return {(hit.session_id, hit.seq) for hit in hits}


def shown(hit: SearchHit) -> str:
    return "".join(part.text for part in hit.snippet)


def matched(hit: SearchHit) -> list[str]:
    return [part.text for part in hit.snippet if part.match]


def test_no_string_whatever_is_a_wrong_query(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user(text) for text in ("a b c", "🎉 日本語", "100% (a) 'b'")])
    for query in NASTY:
        for filters in (None, Filters(roles=[query], sources=[query])):
            try:
                hits = db.search(query, filters=filters)
            except Exception as error:
                raise AssertionError(f"{query[:40]!r} raised") from error
            assert isinstance(hits, list)


@given(st.text(st.characters(), max_size=60))
@example('a"b')
@example("\x00")
@settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_text_is_a_query(db: SessionDB, query: str) -> None:
    if db.get_session("s") is None:
        db.create_session("s", source="cli")
        db.sessions.append_message("s", user("some words to be found"))
    for hit in db.search(query):
        assert shown(hit)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40))
@settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_message_is_found_by_its_own_ascii_words(db: SessionDB, noise: str) -> None:
    session_id = new_id()
    db.create_session(session_id, source="cli")
    db.sessions.append_message(session_id, user(f"{noise} needle{session_id} {noise}"))
    assert places(db.search(f"needle{session_id}")) == {(session_id, 0)}


TEXTS = [
    "plain words here",
    "C++ and Rust",
    "look at /etc/nginx/nginx.conf please",
    "call snake_case_name(x)",
    "mail user@example.com now",
    "price is 3.14159 EUR",
    "🎉 launch party",
    "東京タワーはとても高いです",
    "คนไทยทุกคน",
    "안녕하세요 세계",
    "مرحبا بالعالم",
    "שלום עולם",
    "हिन्दी में लिखो",
    "Привет, мир",
    "it's Peter's",
    "x == y && !z || 100%",
    "!!!",
    "日本語 and English mixed",
]


def test_a_message_is_found_by_its_own_text(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user(text) for text in TEXTS])
    for number, text in enumerate(TEXTS):
        assert places(db.search(text)) == {(session, number)}
        for word in text.split():
            assert (session, number) in places(db.search(word)), word


def test_a_fresh_message_is_found_at_once_by_every_store(database: Database) -> None:
    one, two = database.open(), database.open()
    one.create_session("s", source="cli")
    for number in range(30):
        writer, reader = (one, two) if number % 2 else (two, one)
        writer.sessions.append_message("s", user(f"thing{number}x"))
        assert places(reader.search(f"thing{number}x")) == {("s", number)}


def test_all_words_must_be_there_in_any_order(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user("red green blue"), user("green blue"), user("blue red")])
    assert places(db.search("blue red")) == {(session, 0), (session, 2)}
    assert places(db.search("RED")) == {(session, 0), (session, 2)}
    assert places(db.search("red yellow")) == set()
    assert places(db.search("red OR green")) == set(), "no operators: OR is a word"


def test_a_quoted_part_must_stand_together(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user("the quick brown fox"), user("the brown quick fox")])
    assert places(db.search('"quick brown"')) == {(session, 0)}
    assert places(db.search('fox "quick brown"')) == {(session, 0)}
    assert places(db.search("quick-brown")) == {(session, 0)}
    assert places(db.search("quick brown")) == {(session, 0), (session, 1)}


def test_words_are_found_in_their_other_forms(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user("She was running tests"), user("unrelated")])
    for query in ("run", "runs", "test", "testing", "RUNNING"):
        assert places(db.search(query)) == {(session, 0)}, query


def test_letters_are_found_with_and_without_their_accents(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user("the naïve café in Zürich"), user("cafe\u0301 naive")])
    for query in ("naive cafe", "naïve café", "NAÏVE cafe\u0301"):
        assert places(db.search(query)) == {(session, 0), (session, 1)}, query


def test_words_and_fragments_are_both_required(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(
        session, [user("party 🎉 at 東京タワー"), user("party"), user("🎉"), user("東京タワー")]
    )
    assert places(db.search("party 🎉")) == {(session, 0)}
    assert places(db.search("京タ")) == {(session, 0), (session, 3)}
    assert places(db.search("🎉 京タ")) == {(session, 0)}


def test_wildcards_of_sql_are_only_characters(db: SessionDB, session: str) -> None:
    db.sessions.append_messages(session, [user("abc"), user("%%"), user("__")])
    assert places(db.search("%")) == {(session, 1)}
    assert places(db.search("__")) == {(session, 2)}


def test_a_hit_says_where_it_is_and_marks_the_match(db: SessionDB, session: str) -> None:
    turn = completed_turn(db, session, "where is the treasure?")
    [hit, *others] = db.search("treasure", filters=Filters(roles=["user"]))
    assert others == []
    stored = db.sessions.read(session)[0]
    assert (hit.session_id, hit.seq, hit.turn_id) == (session, 0, turn.id)
    assert (hit.role, hit.created) == ("user", stored.created)
    assert (hit.source, hit.title) == ("cli", "A talk")
    assert shown(hit).startswith("where is the treasure")
    assert matched(hit) == ["treasure"]


@pytest.mark.parametrize("needle", ["needle", "🎉", "京タ"])
def test_a_snippet_of_a_long_text_is_short_and_holds_the_match(
    db: SessionDB, session: str, needle: str
) -> None:
    db.sessions.append_message(session, user(f"{'before ' * 500} {needle} {'after ' * 500}"))
    [hit] = db.search(needle)
    assert matched(hit) == [needle]
    assert "before" in shown(hit)
    assert "after" in shown(hit)
    assert len(shown(hit)) < 500


def test_match_marks_in_the_text_itself_do_no_harm(db: SessionDB, session: str) -> None:
    db.sessions.append_message(session, user("odd \x02 marks \x03 here \x03\x02 needle"))
    [hit] = db.search("needle")
    assert "needle" in matched(hit)
    assert "odd" not in matched(hit)


def test_hits_can_be_filtered_by_role_source_and_conversation(db: SessionDB, session: str) -> None:
    db.create_session("web", source="web")
    db.sessions.append_messages(session, [user("topic"), assistant("topic")])
    db.sessions.append_messages("web", [user("topic"), cast(Any, {"role": "tool", "content": "topic"})])

    def found(**filters: Any) -> set[tuple[str, int]]:  # noqa: ANN401 - the fields of Filters
        return places(db.search("topic", filters=Filters(**filters)))

    everything = {(session, 0), (session, 1), ("web", 0), ("web", 1)}
    assert found() == everything
    assert found(roles=["user"]) == {(session, 0), ("web", 0)}
    assert found(roles=["assistant", "tool"]) == {(session, 1), ("web", 1)}
    assert found(roles=[]) == set()
    assert found(sources=["web"]) == {("web", 0), ("web", 1)}
    assert found(sources=["web", "cli", "none"]) == everything
    assert found(sources=["web"], roles=["user"]) == {("web", 0)}
    assert found(session_id=session) == {(session, 0), (session, 1)}
    assert found(session_id="web", roles=["user"], sources=["cli"]) == set()
    with pytest.raises(SessionNotFound):
        found(session_id="nobody")


@pytest.mark.parametrize("needle", ["topic", "🎉"])
def test_hits_can_be_filtered_by_time(database: Database, needle: str) -> None:
    db = database.open()
    db.create_session("s", source="cli")
    times = []
    for _ in range(3):
        seq = db.sessions.append_message("s", user(needle))
        times.append(db.sessions.read("s", start=seq)[0].created)
        database.clock.advance(1)

    def found(since: int | None = None, until: int | None = None) -> list[int]:
        filters = Filters(since=since, until=until)
        return sorted(hit.seq for hit in db.search(needle, filters=filters))

    assert found(since=times[1]) == [1, 2], "since is included"
    assert found(until=times[1]) == [0], "until is not"
    assert found(since=times[1], until=times[2]) == [1]
    assert found(since=times[2] + 1) == []
    assert found(since=0, until=2**62) == [0, 1, 2]


@pytest.mark.clause("C8")
@pytest.mark.parametrize("needle", ["topic", "🎉"])
def test_search_in_a_conversation_follows_its_lineage_and_finds_each_text_once(
    db: SessionDB, session: str, needle: str
) -> None:
    db.sessions.append_messages(session, [user(f"{needle} one"), user(f"{needle} two")])
    db.rotate(session, "b", [user(f"summary of {needle}")], carry_from=1)
    db.sessions.append_message("b", user(f"{needle} three"))
    db.rotate("b", "c", [], carry_from=0)
    db.create_session("branch", source="cli", parent="c", relation="branch")
    db.sessions.append_message("branch", user(f"{needle} elsewhere"))
    said = {(session, 0), (session, 1), ("b", 0), ("b", 2)}
    for member in (session, "b", "c"):
        hits = db.search(needle, filters=Filters(session_id=member))
        assert places(hits) == said
        assert len(hits) == len(said)
    assert places(db.search(needle, filters=Filters(session_id="branch"))) == {("branch", 0)}
    assert places(db.search(needle)) == said | {("branch", 0)}


@pytest.mark.parametrize("needle", ["topic", "🎉"])
def test_a_limit_takes_the_best_and_zero_takes_none(db: SessionDB, session: str, needle: str) -> None:
    db.sessions.append_messages(session, [user(f"{needle} {number}") for number in range(30)])
    assert len(db.search(needle)) == 20
    assert len(db.search(needle, limit=7)) == 7
    assert db.search(needle, limit=0) == []
    assert len(db.search(needle, limit=1000)) == 30


def test_the_better_match_comes_first(db: SessionDB, session: str) -> None:
    padding = "other words that say nothing of it at all " * 20
    db.sessions.append_messages(session, [user(f"topic {padding}"), user("topic topic topic")])
    assert [hit.seq for hit in db.search("topic")] == [1, 0]


def test_text_in_parts_and_beside_what_can_not_be_stored_is_found(db: SessionDB, session: str) -> None:
    parts = [{"type": "text", "text": "first treasure"}, {"type": "image_url"}, {"text": "second"}]
    db.sessions.append_messages(
        session,
        [
            cast(Any, {"role": "user", "content": parts}),
            user("nul \x00 treasure"),
            cast(Any, {"role": "assistant", "content": None, "reasoning": "treasure"}),
            cast(Any, {"role": "assistant"}),
        ],
    )
    assert places(db.search("treasure")) == {(session, 0), (session, 1)}
    assert places(db.search("first second")) == {(session, 0)}


def test_what_was_never_committed_is_never_found(db: SessionDB, session: str) -> None:
    with pytest.raises(Exception, match="turn"):
        db.sessions.append_messages(session, [user("ghost")], turn_id="no such turn")
    db.inbox.put(session, user("ghost in the inbox"))
    assert db.search("ghost") == []


@given(st.text(st.characters()))
def test_a_query_is_taken_apart_into_a_bounded_number_of_terms(query: str) -> None:
    terms = parse_query(query)
    assert len(terms.phrases) + len(terms.fragments) <= 64
    assert all(word for phrase in terms.phrases for word in phrase)
    assert all(terms.fragments)
    if query.strip().replace("\x00", "").isascii() and query.replace("\x00", "").strip():
        assert terms.phrases or terms.fragments or not query.replace("\x00", " ").strip()


@pytest.mark.slow
def test_ten_thousand_messages_are_indexed_and_found(db: SessionDB, session: str) -> None:
    for start in range(0, 10_000, 1_000):
        db.sessions.append_messages(session, [user(f"word{n} common") for n in range(start, start + 1_000)])
    for number in (0, 1, 4_999, 9_999):
        assert places(db.search(f"word{number}")) == {(session, number)}
    assert len(db.search("common", limit=20_000)) == 10_000
    assert db.check() == []


def test_a_word_that_stands_many_times_in_long_texts_is_found_with_its_surroundings(db: SessionDB) -> None:
    db.create_session("s", source="test")
    log = "the warp core was running hot again and " * 5_000
    for _ in range(3):
        db.sessions.append_message("s", user(log))
    for query in ("core", "run", '"warp core"'):
        hits = db.search(query)
        assert [hit.seq for hit in hits] == [0, 1, 2]
        assert all(any(part.match for part in hit.snippet) for hit in hits)
        assert all(len("".join(part.text for part in hit.snippet)) < 500 for hit in hits)
