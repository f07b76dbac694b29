"""The actions of the tools `fact_store` and `fact_feedback`, one method each."""

from collections.abc import Callable
from typing import Any

from holdfast.providers.holographic.contradictions import Contradiction, all_contradictions, contradictions_of
from holdfast.providers.holographic.facts import HELPFUL, UNHELPFUL, Fact, Statement
from holdfast.providers.holographic.search import FactSearch, ProbeResult
from holdfast.providers.holographic.store import FactStore
from holdfast.providers.holographic.tools import FactStoreArguments, fact_json, required

Answer = dict[str, Any]


class FactActions:
    """The actions of `fact_store` and `fact_feedback`."""

    def __init__(self, store: FactStore, search: FactSearch) -> None:
        self._store = store
        self._search = search
        self._queries = store.queries

    def run_action(self, call: FactStoreArguments) -> Answer:
        actions: dict[str, Callable[[FactStoreArguments], Answer]] = {
            "add": self._add,
            "search": self._find,
            "probe": self._probe,
            "related": self._related,
            "reason": self._reason,
            "contradict": self._contradict,
            "update": self._update,
            "remove": self._remove,
            "list": self._list,
        }
        return actions[call.action](call)

    def feedback(self, fact_id: int, *, helpful: bool) -> Fact | None:
        """Raise or lower the trust of a fact; None when it does not exist."""
        return self._store.rate(fact_id, HELPFUL if helpful else UNHELPFUL, counted=True)

    def contradictions_of(self, fact_id: int) -> list[Contradiction]:
        """The facts that contradict this one."""
        return self._store.read(lambda connection: contradictions_of(connection, self._queries, fact_id))

    def contradictions(self) -> list[Contradiction]:
        """All pairs of facts that contradict each other, newest first."""
        return self._store.read(lambda connection: all_contradictions(connection, self._queries))

    def _add(self, call: FactStoreArguments) -> Answer:
        statement = Statement(
            required(call, "content"), call.category or "general", call.tags or "", tuple(call.entities or ())
        )
        fact_id, is_new = self._store.add(statement)
        answer: Answer = {"id": fact_id, "new": is_new}
        pairs = self.contradictions_of(fact_id)
        if pairs:
            answer["contradicts"] = self._others(fact_id, pairs)
            answer["hint"] = "update or remove the fact that no longer holds"
        return answer

    def _find(self, call: FactStoreArguments) -> Answer:
        found = self._search.search(
            required(call, "query"), call.limit, category=call.category or "", least_trust=call.min_trust
        )
        return {"facts": [fact_json(fact) for fact in found]}

    def _probe(self, call: FactStoreArguments) -> Answer:
        return _probe_answer(
            self._search.probe([required(call, "entity")], call.limit, least_trust=call.min_trust)
        )

    def _related(self, call: FactStoreArguments) -> Answer:
        return _probe_answer(
            self._search.related(required(call, "entity"), call.limit, least_trust=call.min_trust)
        )

    def _reason(self, call: FactStoreArguments) -> Answer:
        return _probe_answer(
            self._search.probe(required(call, "entities"), call.limit, least_trust=call.min_trust)
        )

    def _contradict(self, call: FactStoreArguments) -> Answer:
        pairs = self.contradictions() if call.fact_id is None else self.contradictions_of(call.fact_id)
        if call.entity:
            probed = self._search.probe([call.entity], limit=1000, least_trust=0.0)
            about = {fact.id for fact in probed.facts}
            pairs = [pair for pair in pairs if pair.older in about or pair.newer in about]
        facts = self._search.facts({each for pair in pairs for each in (pair.older, pair.newer)})
        pairs_json = [
            {
                "older": fact_json(facts[pair.older]),
                "newer": fact_json(facts[pair.newer]),
                "reason": pair.reason,
            }
            for pair in pairs
            if pair.older in facts and pair.newer in facts
        ]
        return {"contradictions": pairs_json[: call.limit], "found": len(pairs_json)}

    def _update(self, call: FactStoreArguments) -> Answer:
        fact_id = required(call, "fact_id")
        done = self._store.change(fact_id, content=call.content, category=call.category, tags=call.tags)
        if done and call.trust_delta is not None:
            self._store.rate(fact_id, call.trust_delta, counted=False)
        facts = self._search.facts([fact_id]) if done else {}
        return {"updated": fact_json(facts[fact_id])} if fact_id in facts else _no_fact(fact_id)

    def _remove(self, call: FactStoreArguments) -> Answer:
        fact_id = required(call, "fact_id")
        return {"removed": fact_id} if self._store.forget(fact_id) else _no_fact(fact_id)

    def _list(self, call: FactStoreArguments) -> Answer:
        found = self._search.list_facts(call.limit, category=call.category or "", least_trust=call.min_trust)
        return {"facts": [fact_json(fact) for fact in found], "kept": self._store.describe().facts}

    def _others(self, fact_id: int, pairs: list[Contradiction]) -> list[Answer]:
        others = {pair.older if pair.newer == fact_id else pair.newer: pair.reason for pair in pairs}
        facts = self._search.facts(others)
        return [fact_json(fact) | {"reason": others[fact.id]} for fact in facts.values()]


def _probe_answer(probed: ProbeResult) -> Answer:
    answer: Answer = {"facts": [fact_json(fact) for fact in probed.facts]}
    if probed.neighbours:
        answer["connected_with"] = probed.neighbours
    if probed.unknown:
        answer["unknown"] = probed.unknown
        answer["note"] = f"nothing is known of {', '.join(probed.unknown)}"
    elif not probed.facts:
        answer["note"] = "no fact is about all of that"
    return answer


def _no_fact(fact_id: int) -> Answer:
    return {"error": f"there is no fact {fact_id}"}
