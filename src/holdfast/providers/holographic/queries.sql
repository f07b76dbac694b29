-- name: fact_with_key(key)$
select id from facts where key = :key

-- name: fact_alike(likeness)$
select id from facts where likeness = :likeness limit 1

-- name: is_forgotten(key, likeness)$
select exists (select 1 from forgotten where key in (:key, :likeness))

-- name: mark_forgotten(key)!
insert into forgotten (key) values (:key) on conflict (key) do nothing

-- name: unmark_forgotten(key, likeness)!
delete from forgotten where key in (:key, :likeness)

-- name: add_fact(content, key, likeness, category, tags, unspaced, trust, created)<!
insert into facts (content, key, likeness, category, tags, unspaced, trust, created, updated)
values (:content, :key, :likeness, :category, :tags, :unspaced, :trust, :created, :created)

-- name: change_fact(id, content, key, likeness, unspaced, updated)!
update facts set content = :content, key = :key, likeness = :likeness, unspaced = :unspaced, updated = :updated
 where id = :id

-- name: change_details(id, category, tags)!
update facts set category = :category, tags = :tags where id = :id

-- name: change_trust(id, trust, helpful, unhelpful)!
update facts set trust = :trust, helpful = helpful + :helpful, unhelpful = unhelpful + :unhelpful
 where id = :id

-- name: drop_fact(id)!
delete from facts where id = :id

-- name: drop_entities_of(fact_id)!
delete from fact_entities where fact_id = :fact_id

-- name: drop_claims_of(fact_id)!
delete from claims where fact_id = :fact_id

-- name: drop_vector_of(fact_id)!
delete from vectors where fact_id = :fact_id

-- name: drop_lonely_entities(ids)!
delete from entities
 where id in (select value from json_each(:ids))
   and not exists (select 1 from fact_entities f where f.entity_id = entities.id)

-- name: merge_index()!
-- One segment: deleted text is removed from the index permanently.
insert into fact_index (fact_index) values ('optimize')

-- name: entity_named(key)^
select e.id, e.key, e.name from entity_names n join entities e on e.id = n.entity_id where n.key = :key

-- name: add_entity(key, name)<!
insert into entities (key, name) values (:key, :name)

-- name: add_entity_name(key, entity_id)!
insert into entity_names (key, entity_id) values (:key, :entity_id) on conflict (key) do nothing

-- name: link(entity_id, fact_id)!
insert into fact_entities (entity_id, fact_id) values (:entity_id, :fact_id) on conflict do nothing

-- name: entity_ids_of(fact_id)
select entity_id from fact_entities where fact_id = :fact_id

-- name: add_claim(frame, value, fact_id)!
insert into claims (frame, value, fact_id) values (:frame, :value, :fact_id) on conflict do nothing

-- name: add_vector(fact_id, vector)!
insert into vectors (fact_id, vector) values (:fact_id, :vector)

-- name: add_source(fact_id, session_id, turn_id)!
insert into sources (fact_id, session_id, turn_id) values (:fact_id, :session_id, :turn_id) on conflict do nothing

-- name: sources_of(ids)
select fact_id, session_id, turn_id from sources where fact_id in (select value from json_each(:ids))

-- name: vectors_after(stamp, most)
select stamp, fact_id, vector from vectors where stamp > :stamp order by stamp limit :most

-- name: removals_after(stamp)
select stamp, fact_id from removals where stamp > :stamp order by stamp

-- name: facts_with(ids)
select f.id, f.content, f.category, f.tags, f.trust, f.helpful, f.unhelpful, f.created, f.updated
  from json_each(:ids) j join facts f on f.id = j.value

-- name: list_facts(category, least_trust, most)
select f.id, f.content, f.category, f.tags, f.trust, f.helpful, f.unhelpful, f.created, f.updated
  from facts f
 where (:category = '' or f.category = :category) and f.trust >= :least_trust
 order by f.trust desc, f.updated desc, f.id desc limit :most

-- name: word_hits(words, most)
select rowid, -rank from fact_index where fact_index match :words order by rank limit :most

-- name: facts_about(entity_id, most)
-- The newest first.
select fact_id from fact_entities where entity_id = :entity_id order by fact_id desc limit :most

-- name: neighbours(entity_id, most)
-- Other entities that share a fact with this one.
select e.key, e.name, count(*) as shared
  from fact_entities a join fact_entities b on b.fact_id = a.fact_id and b.entity_id <> a.entity_id
  join entities e on e.id = b.entity_id
 where a.entity_id = :entity_id
 group by e.id order by shared desc, e.id limit :most

-- name: claims_of(fact_id)
select frame, value from claims where fact_id = :fact_id

-- name: rival_claims(fact_id, most)
-- What other facts say in the frames of this one, and whether they are newer.
select a.frame, a.value, b.value, b.fact_id, (g.updated, g.id) > (f.updated, f.id)
  from claims a join claims b on b.frame = a.frame and b.value <> a.value and b.fact_id <> a.fact_id
  join facts f on f.id = a.fact_id join facts g on g.id = b.fact_id
 where a.fact_id = :fact_id limit :most

-- name: disputed_claims(most)
-- Every claim of the frames that have more than one value, the newest disputes first.
select c.frame, c.value, c.fact_id, f.updated
  from (select frame, max(fact_id) as newest from claims
         group by frame having min(value) < max(value) order by newest desc limit :most) d
  join claims c on c.frame = d.frame join facts f on f.id = c.fact_id
 order by d.newest desc, c.frame, f.updated, c.fact_id

-- name: count_all()^
select (select count(*) from facts), (select count(*) from entities),
       (select count(*) from stretches where text is not null)

-- name: add_conversation(key, text, created)!
insert into stretches (key, text, created) values (:key, :text, :created) on conflict (key) do nothing

-- name: due_conversation(now)^
select id, text, attempts from stretches where text is not null and due <= :now order by due, id limit 1

-- name: next_due_conversation()$
select min(due) from stretches where text is not null

-- name: claim_conversation(id, now, due)!
update stretches set due = :due, attempts = attempts + 1 where id = :id and text is not null and due <= :now

-- name: defer_conversation(id, due)!
update stretches set due = :due where id = :id and text is not null

-- name: finish_conversation(id)!
update stretches set text = null where id = :id and text is not null

-- name: move_links(old, new)!
insert into fact_entities (entity_id, fact_id)
select :new, fact_id from fact_entities where entity_id = :old on conflict do nothing

-- name: drop_links(entity_id)!
delete from fact_entities where entity_id = :entity_id

-- name: move_names(old, new)!
update entity_names set entity_id = :new where entity_id = :old

-- name: drop_entity(id)!
delete from entities where id = :id

-- name: names_of(entity_id)
select key from entity_names where entity_id = :entity_id

-- name: newer_claims(ids, most)
-- What newer facts, trusted as much, say in the frames of these.
select a.frame, a.value, b.value, a.fact_id, b.fact_id
  from json_each(:ids) j
  join claims a on a.fact_id = j.value
  join claims b on b.frame = a.frame and b.value <> a.value and b.fact_id <> a.fact_id
  join facts f on f.id = a.fact_id
  join facts g on g.id = b.fact_id and g.trust >= f.trust and (g.updated, g.id) > (f.updated, f.id)
 limit :most

-- name: facts_stated_in(session_id, turn_id)
select fact_id from sources where session_id = :session_id and turn_id = :turn_id

-- name: drop_source(fact_id, session_id, turn_id)!
delete from sources where fact_id = :fact_id and session_id = :session_id and turn_id = :turn_id

-- name: is_stated_elsewhere(fact_id, whole)$
-- Whether another turn states the fact, or a conversation that was extracted as a whole and is not forgotten.
select exists (select 1 from sources where fact_id = :fact_id and (turn_id <> '' or :whole))

-- name: facts_between(after, before)
select id from facts where created >= :after and created < :before

-- name: drop_queued_conversations(sessions)!
-- For a JSON list of session ids. An extraction that is running finds that its conversation is gone.
update stretches set text = null
 where text is not null and json_type(text) = 'object'
   and json_extract(text, '$.session') in (select value from json_each(:sessions))

-- name: facts_of_whole_session(session_id)$
select count(*) from sources where session_id = :session_id and turn_id = ''
