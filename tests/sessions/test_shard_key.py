"""The conversation is the natural shard key: a statement on its rows says which one it means.

A database that spreads conversations over several servers sends a statement to one of them only if the
statement names the conversation: by a session, its root, its lease, or a turn, which is in one session. What
asks for all conversations, or finds a row by its own number, is listed here with the reason.
"""

import re

import pytest

from holdfast.sessions.queries import load_queries

OWNED = (
    *("sessions", "turns", "messages", "inbox", "asks", "outbox", "file_changes"),
    *("conversation_settings", "conversation_choices", "forgotten_turns"),
)
KEYS = ("session_id", "session_ids", "root", "turn_id", "parent", "child", "conversations")
"""Parameters that name a conversation, whatever the statement is about."""
SPOKEN_OF = ("sessions", "turns")
"""Tables whose own id names the conversation."""

EXCEPTIONS = {
    "asks about all conversations: on every shard, by an index, and rarely": """
        conversations_of_others delegated_turns inconsistencies list_sessions schedule_work
        sessions_with_waiting_messages settle_runs store_activity turns_completed_between
        turns_with_asks_left uncommitted_sessions unfinished_turns unused_sessions
    """,
    "finds a row by its own number or id, which its caller got with the row: the key would go along": """
        claim_run close_ask drop_delivery drop_file_change end_claim extend_claim get_ask get_delivery
        get_inbox_message keep_answer mark_file_change_undone replace_message retry_delivery return_claim
        settle_claim settle_file_change withdraw_message
    """,
    "a key against doubles counts for all conversations: on shards a table of its own": "inbox_by_key",
    "searches all conversations: on every shard, and the best of each": "search_fragments search_words",
    "the outbox is drained for one provider: each shard for itself": """
        claims_in_force count_open count_set_aside due_heads is_due last_delivery list_deliveries next_due
        rename_provider
    """,
    "a request to forget is about turns of any conversation: on every shard": """
        drop_forgotten_copies drop_forgotten_deliveries forgotten_under_way providers_told
    """,
    "asks about one person, folder or room, which has many conversations": """
        chat_conversations conversations_of_scope count_stored empty_folder get_folder list_folders
        refile_conversations roots_of_scope scopes_to_measure stored_size tokens_used turns_begun
        turns_running
    """,
}
"""Why statements name no conversation, and which."""
EXCUSED = {name for names in EXCEPTIONS.values() for name in names.split()}


def statements() -> dict[str, str]:
    queries = load_queries("postgres", "psycopg")
    found = {name: getattr(each, "sql", None) for name, each in vars(queries).items()}
    return {
        name: " ".join(sql.lower().split())
        for name, sql in found.items()
        if sql is not None and not name.endswith("_cursor")
    }


def touched(sql: str) -> set[str]:
    """The tables of conversations that a statement reads or writes."""
    named = re.findall(r"\b(?:from|join|into|update)\s+([a-z_]+)|,\s*([a-z_]+)\s+[a-z]\b", sql)
    return {name for pair in named for name in pair} & set(OWNED)


def names_its_conversation(sql: str) -> bool:
    parameters = set(re.findall(r"%\(([a-z_]+)\)s", sql))
    if parameters & set(KEYS) or ("lease" in parameters and "asks" in touched(sql)):
        return True
    # `id` means the conversation where it is that of a session or a turn.
    first = re.search(r"\b(?:from|into|update)\s+([a-z_]+)", sql)
    short = re.findall(rf"\b(?:{'|'.join(SPOKEN_OF)}) ([a-z])\b", sql)
    is_first = first is not None and first[1] in SPOKEN_OF
    return "id" in parameters and (is_first or any(f" {each}.id = %(id)s" in sql for each in short))


def test_a_statement_on_a_conversation_names_it_or_is_listed_with_its_reason() -> None:
    found = statements()
    assert len(found) > len(EXCUSED)
    nameless = {name for name, sql in found.items() if touched(sql) and not names_its_conversation(sql)}
    assert nameless - EXCUSED == set(), "name the conversation, or list it above with the reason"
    assert EXCUSED - nameless == set(), "these need no exception (any more)"


@pytest.mark.parametrize(
    ("sql", "is_named"),
    [
        ("select * from messages where session_id = %(session_id)s", True),
        ("select * from messages where role = %(role)s", False),
        ("update turns set state = 'x' where id = %(id)s", True),
        ("update inbox set state = 'x' where id = %(id)s", False),
        ("update asks set token = 1 where lease = %(lease)s", True),
        ("update outbox set due = 1 where lease = %(lease)s", False),
    ],
)
def test_what_counts_as_a_name(sql: str, is_named: bool) -> None:
    assert touched(sql)
    assert names_its_conversation(sql) is is_named
