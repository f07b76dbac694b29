"""What the faults of the torture hit, and how long it took until another process went on.

Read from the log of the database (`log.py`) by plain SQL. All times are of one machine's clock.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Ask = Callable[..., list[tuple[Any, ...]]]
LEASE_SECONDS = 15.0

WORK = """
    select kind, thing, split_part(node, ':', 1), goes_on, extract(epoch from written)::float from
        (select 'a turn' as kind, turn as thing, node, written, what like '%, now running' as goes_on
           from torture_writes where what like '% turn, now %'
         union all
         select 'a compaction', name, node, written, holder is not null
           from torture_leases where name like 'compression:%'
         union all
         select 'a delivery to memory', delivery::text, node, written, state = 'claimed'
           from torture_deliveries
         union all
         select 'a message on its way to a chat', thing, node, written, what = 'part, now sending'
           from torture_chats where what like 'part, %') w
     order by written"""
"""What a node does, from its begin to its end: a row for each change."""

STEPS = """
    select thing, process, goes_on, extract(epoch from written)::float from
        (select 'turn ' || turn as thing, node as process, written, id,
                what not like '%, now %' or what like '%, now running' as goes_on
           from torture_writes where turn is not null
         union all
         select name, coalesce(holder, node), written, id, holder is not null
           from torture_leases where name like 'chat:%') s
     order by written, id"""
"""Which process did each step of a turn, or took or let go of a chat account, and whether it goes on."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A fault that was carried out: on which machines, and from when to when."""

    kind: str
    hosts: frozenset[str]
    began: float
    ended: float
    kills: bool = False
    stops_nodes: bool = False
    """Whether the node itself is what is killed, paused or cut off."""


def what_was_hit(ask: Ask, hits: Sequence[Hit]) -> Counter[str]:
    """How many faults began while a machine that they hit was in the middle of something."""
    running: dict[tuple[str, str], str] = {}
    found: Counter[str] = Counter()
    changes = iter(ask(WORK))
    change = next(changes, None)
    for hit in sorted(hits, key=lambda each: each.began):
        while change is not None and change[4] <= hit.began:
            kind, thing, host, goes_on, _ = change
            if goes_on:
                running[kind, thing] = host
            else:
                running.pop((kind, thing), None)
            change = next(changes, None)
        struck = [each for each, host in running.items() if host in hit.hosts]
        found.update(f"faults that hit {kind}" for kind in {kind for kind, _ in struck})
        if hit.kills:
            for each in struck:
                del running[each]
    return found


def takeovers(ask: Ask, hits: Sequence[Hit]) -> list[tuple[float, str, str]]:
    """Seconds from a fault of a node until another process went on; with what, and after which fault."""
    running: dict[str, str] = {}
    waiting: dict[str, tuple[float, str]] = {}
    found: list[tuple[float, str, str]] = []
    for moment in _in_order(ask(STEPS), [each for each in hits if each.stops_nodes]):
        if isinstance(moment, Hit):
            held = {name for name, process in running.items() if process.split(":")[0] in moment.hosts}
            waiting |= dict.fromkeys(held - waiting.keys(), (moment.began, moment.kind))
            continue
        name, process, goes_on, at = moment
        if name in waiting:
            began, kind = waiting.pop(name)
            if _process(process) != _process(running[name]):
                found.append((at - began, name, kind))
        if goes_on:
            running[name] = process
        else:
            running.pop(name, None)
    return found


def _in_order(rows: list[tuple[Any, ...]], hits: Sequence[Hit]) -> Iterator[tuple[Any, ...] | Hit]:
    moments: list[tuple[float, tuple[Any, ...] | Hit]] = [(row[3], row) for row in rows]
    moments += [(hit.began, hit) for hit in hits]
    return (moment for _, moment in sorted(moments, key=lambda each: each[0]))


def _process(holder: str) -> tuple[str, ...]:
    """Machine and process id."""
    return tuple(holder.split(":")[:2])


def report(ask: Ask, hits: Sequence[Hit]) -> tuple[Counter[str], list[str]]:
    """The numbers of both, and the longest takeovers in words."""
    found = what_was_hit(ask, hits)
    taken = sorted(takeovers(ask, hits), reverse=True)
    found["takeovers from a node that was hit"] = len(taken)
    found["takeovers after more than a lease"] = sum(each[0] > LEASE_SECONDS for each in taken)
    found["longest takeover, in seconds"] = round(taken[0][0]) if taken else 0
    return found, [f"takeover: {seconds:.1f} s, {name}, {kind}" for seconds, name, kind in taken[:5]]
