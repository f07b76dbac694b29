"""The checker of the torture. It knows nothing of Holdfast's code: it has plain SQL, and what others saw.

Each entry of `QUESTIONS` finds rows that must not be there, and says what they would mean.

Memory gets a turn at least once. A second time is judged by the claims of its delivery: a process that
delivers has claimed the delivery before, for a while. A turn may arrive once for each claim, at the hands of
the machine that made it; and a claim may be followed by another only when a fault hit that machine (or the
database, or the way there) while the claim was in force or shortly before, so that nobody knew whether the
turn had arrived. Everything else is a fault of the outbox.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench.node_torture.clients import Ledger
from bench.node_torture.hits import LEASE_SECONDS, Hit

Rows = list[tuple[Any, ...]]
Ask = Callable[..., Rows]
SHOWN = 8
RECORDER = "recorder"


class Arrival(NamedTuple):
    """A turn that reached memory, from which machine and when."""

    session: str
    turn: str
    host: str
    at: float


class Claim(NamedTuple):
    """A claim of a delivery, until the next one."""

    host: str
    at: float
    until: float
    is_last: bool


QUESTIONS = {
    "turns still open": "select id, session_id from turns where state = 'running'",
    "turns that failed": "select id, session_id, reason from turns where state = 'failed'",
    "completed turns without one answer at their end": """
        select t.id, m.role, m.seq, m.content from turns t
          left join lateral (select role, seq, left(content, 60) as content, extra from messages
                              where turn_id = t.id and carried = 0 order by id desc limit 1) m on true
         where t.state = 'completed'
           and (m.role is distinct from 'assistant' or coalesce(m.extra, '') like '%tool_calls%')""",
    "answers doubled": """
        select turn_id, split_part(content, ' ', 2), count(*) from messages
         where role = 'assistant' and carried = 0 and content ~ '^(say|look|write) c[0-9]+-[0-9]+ '
           and coalesce(extra, '') not like '%"holdfast"%'
         group by 1, 2 having count(*) > 1""",
    "messages of a person that are there twice": """
        select split_part(content, ' ', 2), count(*), min(turn_id), max(turn_id) from messages
         where role = 'user' and carried = 0 and turn_id is not null
           and content ~ '^(say|look|write) c[0-9]+-[0-9]+ '
         group by 1 having count(*) > 1""",
    "conversations without one live end": """
        select s.root, count(*) from sessions s
         where not exists (select 1 from sessions c where c.parent = s.id and c.relation = 'continuation')
         group by 1 having count(*) <> 1""",
    "sessions that go on, but have not ended by compression": """
        select p.id, p.end_reason, c.id from sessions c join sessions p on p.id = c.parent
         where c.relation = 'continuation' and p.end_reason is distinct from 'compression'""",
    "sessions that go on twice": """
        select parent, count(*) from sessions where relation = 'continuation'
         group by 1 having count(*) > 1""",
    "writes without the lease": """
        select node, what, turn, holder, token, in_force, written from torture_writes
         where holder is null or left(holder, length(node) + 1) <> node || ':' or not in_force""",
    "writes with an older fencing token": """
        select node, what, turn, token, newest, written from
            (select *, max(token) over (partition by root order by id) as newest from torture_writes) w
         where token < newest""",
    "chats changed without the account's lease": """
        select node, account, what, thing, holder, in_force, written from torture_chats
         where holder is null or left(holder, length(node) + 1) <> node || ':' or not in_force""",
    "deliveries claimed while another claim was in force": """
        select node, provider, turn, written from torture_deliveries
         where old_state = 'claimed' and state = 'claimed' and was_in_force""",
    "deliveries ended by a process that had not claimed them": """
        select node, claimer, provider, turn, state, written from
            (select *, lag(node) over (partition by delivery order by id) as claimer
               from torture_deliveries) d
         where old_state = 'claimed' and state <> 'claimed' and node <> claimer
           and (state = 'delivered' or split_part(node, ':', 1) <> split_part(claimer, ':', 1))""",
    "fencing tokens that did not grow": """
        select node, name, old_holder, old_token, holder, token, written from torture_leases
         where token < old_token or (holder is not null and token = old_token and holder <> old_holder)""",
    "leases taken from a living holder": """
        select node, name, old_holder, holder, written from torture_leases
         where was_in_force and (holder <> old_holder
               or holder is null and name like 'session:%'
                  and split_part(node, ':', 1) <> split_part(old_holder, ':', 1))""",
    "deliveries still owed": """
        select provider, session_id, turn_id, state, attempts, last_error from outbox
         where state in ('owed', 'claimed', 'set_aside')""",
    "completed turns that are owed to nobody": """
        select t.id, p.name from torture_whose t join (values ('local', 'owner'), ('local', 'person'),
               ('recorder', 'owner')) p (name, who) on p.who = t.who
         where t.state = 'completed'
           and not exists (select 1 from outbox o where o.turn_id = t.id and o.provider = p.name)""",
    "turns that are owed to who may not have them": """
        select t.id, o.provider, t.who from torture_whose t join outbox o on o.turn_id = t.id
         where t.who = 'group' or t.who = 'person' and o.provider = 'recorder'""",
    "messages of chats that were refused, too old, or joined to another": """
        select account, chat, event_id, state, note from chat_events
         where state in ('refused', 'expired', 'joined')""",
    "answers to chats that could not be sent": """
        select id, room_id, kind, error from chat_posts where state = 'failed'""",
    "deliveries settled out of order": """
        select provider, session_id, turn_id from
            (select o.*, t.generation, max(t.generation) over
                (partition by o.provider, o.session_id order by o.settled, t.generation
                 rows between unbounded preceding and 1 preceding) as before
               from outbox o join turns t on t.id = o.turn_id where o.state = 'delivered') d
         where before > generation""",
}


KEYS = """
    select split_part(message::json ->> 'content', ' ', 2) from inbox
     where message::json ->> 'content' ~ '^(say|look|write) c[0-9]+-[0-9]+ '"""
"""How the clients of the torture name their messages; a chat's are compared as its people see them."""

STANDSTILLS = """
    select extract(epoch from next - written)::float, turn, node, what, next_node, next_what, written from
        (select turn, node, what, written, lead(written) over turns as next,
                lead(node) over turns as next_node, lead(what) over turns as next_what
           from torture_writes where turn is not null window turns as (partition by turn order by id)) w
     where next is not null order by 1 desc limit 5"""
"""How long turns stood still between two writes: half a second, or as long as a fault lasts."""


def is_at_rest(ask: Ask) -> bool:
    """Whether nothing is left to do."""
    return not ask(
        "select 1 from turns where state = 'running' union all select 1 from inbox where state = 'waiting'"
        " union all select 1 from outbox where state in ('owed', 'claimed')"
        " union all select 1 from chat_events where state = 'new'"
        " union all select 1 from chat_posts where state in ('open', 'due') limit 1"
    )


def check(
    ask: Ask, books: Ledger, delivered: Sequence[Arrival], hits: Sequence[Hit]
) -> tuple[Counter[str], list[str]]:
    """What there is, and what must not be there, with some words on each finding."""
    found: Counter[str] = Counter()
    findings: dict[str, Rows] = {what: ask(question) for what, question in QUESTIONS.items()}
    findings |= _messages(ask, books, found)
    findings |= _deliveries(ask, delivered, found)
    findings |= _repeats(ask, delivered, hits)
    findings |= _what_clients_saw(ask, books, found)
    findings["requests refused"] = [(each,) for each in books.refusals]
    words = [f"{what}: {row}" for what, rows in findings.items() for row in rows[:SHOWN]]
    standstills = ask(STANDSTILLS)
    words += [f"standstill: {row}" for row in standstills]
    found["longest standstill of a turn, in seconds"] = round(max((row[0] for row in standstills), default=0))
    found.update({f"FAULT: {what}": len(rows) for what, rows in findings.items() if rows})
    return found, words


def _messages(ask: Ask, books: Ledger, found: Counter[str]) -> dict[str, Rows]:
    """Every accepted message is in one turn, waits, or was taken back or deleted by its person."""
    stored = {row[0]: row[1:] for row in ask("select id, state, turn_id from inbox")}
    states = {row[0]: row[1:] for row in ask("select id, state, reason from turns")}
    texts = Counter(
        {
            row[0]: row[1]
            for row in ask(
                "select content, count(distinct turn_id) from messages"
                " where role = 'user' and carried = 0 and turn_id is not null group by 1"
            )
        }
    )
    keys = Counter(row[0] for row in ask(KEYS))
    lost: Rows = []
    elsewhere: Rows = []
    for inbox_id, text in books.sent.items():
        state, turn = stored.get(inbox_id, ("", None))
        if not state and inbox_id not in books.deleted:
            lost.append((inbox_id, text[:40]))
        if state == "taken" and texts[text] != 1:
            elsewhere.append((inbox_id, text[:40], texts[text]))
        found[f"messages: {_fate(state, *states.get(turn, ('', '')))}"] += 1
    return {
        "accepted messages lost": lost,
        "accepted messages not in exactly one turn": elsewhere,
        "accepted messages withdrawn by nobody": [
            (each,)
            for each in books.withdrawn
            if each in stored and stored[each][0] != "withdrawn" and each not in books.deleted
        ],
        "messages accepted twice": [(key, count) for key, count in keys.items() if count > 1],
        "messages that still wait": ask("select id, session_id from inbox where state = 'waiting'"),
    }


def _fate(state: str, turn: str, reason: str | None) -> str:
    if state != "taken":
        return {"": "deleted by their person", "withdrawn": "withdrawn by their person"}.get(state, state)
    if turn == "completed":
        return "answered"
    short = (reason or "").split(";")[0].split(" in this turn")[0].split(" in the middle")[0]
    return f"{turn}: {short[:60]}"


def _deliveries(ask: Ask, delivered: Sequence[Arrival], found: Counter[str]) -> dict[str, Rows]:
    """Every completed turn reached memory, within its session in order; again only with the same turn."""
    arrived: dict[str, int] = {}
    for each in delivered:
        arrived.setdefault(each.turn, len(arrived))
    completed = ask(
        "select session_id, id from torture_whose where state = 'completed' and who = 'owner'"
        " order by session_id, generation"
    )
    by_session: dict[str, list[str]] = defaultdict(list)
    for session, turn in completed:
        by_session[session].append(turn)
    late: Rows = []
    for session, turns in by_session.items():
        places = [arrived[turn] for turn in turns if turn in arrived]
        if places != sorted(places):
            late.append((session, turns, places))
    found["turns completed"] = len(ask("select 1 from turns where state = 'completed'"))
    found["deliveries made more than once"] = len(delivered) - len(arrived)
    return {
        "completed turns that never reached memory": [row for row in completed if row[1] not in arrived],
        "sessions whose turns reached memory out of order": late,
    }


def _repeats(ask: Ask, delivered: Sequence[Arrival], hits: Sequence[Hit]) -> dict[str, Rows]:
    """Turns that memory got again, without a fault that explains it."""
    claims = _claims(ask)
    used: dict[tuple[str, Claim], int] = Counter()
    unclaimed: Rows = []
    for arrival in delivered:
        made = [c for c in claims[arrival.turn] if c.host == arrival.host and c.at <= arrival.at]
        if made:
            used[arrival.turn, made[-1]] += 1
        else:
            unclaimed.append(arrival)
    times = Counter(each.turn for each in delivered)
    return {
        "turns that reached memory without a claim": unclaimed,
        "turns that reached memory twice under one claim": [
            (turn, claim, count) for (turn, claim), count in used.items() if count > 1
        ],
        "turns that reached memory again though no fault hit the claim before": [
            (turn, claim)
            for turn, claim in used
            if times[turn] > 1 and not claim.is_last and not any(_explains(hit, claim) for hit in hits)
        ],
    }


def _claims(ask: Ask) -> dict[str, list[Claim]]:
    """The claims of each turn's delivery to the recorder, in order."""
    rows = ask(
        "select turn, split_part(node, ':', 1), extract(epoch from written)::float,"
        " extract(epoch from lead(written) over turns)::float, lead(written) over turns is null"
        " from torture_deliveries where state = 'claimed' and provider = %s"
        " window turns as (partition by turn order by id) order by id",
        RECORDER,
    )
    claims: dict[str, list[Claim]] = defaultdict(list)
    for turn, host, at, until, is_last in rows:
        claims[turn].append(Claim(host, at, until or at, is_last))
    return claims


def _explains(hit: Hit, claim: Claim) -> bool:
    """What a fault broke may be noticed only when a lease has run out."""
    return claim.host in hit.hosts and hit.began <= claim.until and claim.at <= hit.ended + LEASE_SECONDS


def _what_clients_saw(ask: Ask, books: Ledger, found: Counter[str]) -> dict[str, Rows]:
    """A reader who was told of an answer was told the one that is on record."""
    states: dict[str, str] = dict(ask("select id, state from turns"))
    answers: dict[str, str | None] = dict(
        ask(
            "select distinct on (turn_id) turn_id, content from messages"
            " where role = 'assistant' and carried = 0 and turn_id is not null order by turn_id, id desc"
        )
    )
    found["answers that readers were told"] = len(books.completed)
    known = {turn: told for turn, told in books.completed.items() if turn in states}
    return {
        "answers told that are not on record": [
            (turn, states[turn]) for turn in known if states[turn] != "completed"
        ],
        "answers told that differ from the record": [
            (turn, told, answers.get(turn)) for turn, told in known.items() if told != {answers.get(turn)}
        ],
        "answers told twice in one stream": list(books.doubled.items()),
    }
