-- name: session_no(id)$
select no from sessions where id = :id

-- name: add_session(id)!
insert into sessions (id) values (:id) on conflict (id) do nothing

-- name: add_scope(session_no, scope)!
insert into scoped_sessions (session_no, scope) values (:session_no, :scope) on conflict do nothing

-- name: scope_of_session(session_no)$
select coalesce((select scope from scoped_sessions where session_no = :session_no), '')

-- name: has_scopes()$
select exists (select 1 from scoped_sessions)

-- name: scopes_after(id)
-- Which scope each of the newer passages has.
select p.id, coalesce(c.scope, '') from passages p left join scoped_sessions c on c.session_no = p.session_no
 where p.id > :id order by p.id

-- name: next_place(session_no)$
select coalesce(max(place), -1) + 1 from passages where session_no = :session_no

-- name: is_forgotten(turn_key)$
select exists (select 1 from forgotten_turns where turn_key = :turn_key)

-- name: turn_parts(turn_key)
select id, part, speaker, text from passages where turn_key = :turn_key order by part

-- name: add_passage(kind, session_no, place, turn_key, part, turn_id, speaker, text, day, unspaced, created)!
insert into passages
       (kind, session_no, place, turn_key, part, turn_id, speaker, text, day, unspaced, created)
values (:kind, :session_no, :place, :turn_key, :part, :turn_id, :speaker, :text, :day, :unspaced, :created)

-- name: next_note()$
select coalesce((select seq from sqlite_sequence where name = 'passages'), 0) + 1

-- name: change_passage(id, speaker, text, day, unspaced, created)!
update passages set speaker = :speaker, text = :text, day = :day, unspaced = :unspaced, created = :created
 where id = :id

-- name: change_note(id, text, day, unspaced, created, scope)!
update passages set text = :text, day = :day, unspaced = :unspaced, created = :created
 where id = :id and kind = 'note'
   and coalesce((select c.scope from scoped_sessions c where c.session_no = passages.session_no), '') = :scope

-- name: turn_key_of(id, scope)^
-- null for the scope means any.
select p.kind, p.turn_key from passages p
 where p.id = :id
   and (:scope is null
        or coalesce((select c.scope from scoped_sessions c where c.session_no = p.session_no), '') = :scope)

-- name: drop_passage(id)!
delete from passages where id = :id

-- name: drop_turn(turn_key)!
delete from passages where turn_key = :turn_key

-- name: mark_forgotten(turn_key)!
insert into forgotten_turns (turn_key) values (:turn_key) on conflict (turn_key) do nothing

-- name: merge_index()!
-- One segment: deleted text is removed from the index permanently.
insert into passage_index (passage_index) values ('optimize')

-- name: await_vectors(model)!
-- Vectors of another model are made again.
insert into unembedded (passage_id) select passage_id from vectors where model < :model or model > :model
    on conflict do nothing

-- name: without_vector(most)
-- In this order and with a cross join: SQLite would go through all passages otherwise.
select p.id, p.speaker, p.text from unembedded u cross join passages p on p.id = u.passage_id
 order by u.passage_id desc limit :most

-- name: count_without_vector()$
select count(*) from unembedded

-- name: mark_embedded(passage_id)!
delete from unembedded where passage_id = :passage_id

-- name: drop_vector(passage_id)!
delete from vectors where passage_id = :passage_id

-- name: add_vector(passage_id, text, model, vector)!
-- Only for the text that was embedded: it may have changed meanwhile.
insert into vectors (passage_id, model, vector)
select id, :model, :vector from passages where id = :passage_id and text = :text

-- name: newest_stamp(model)$
select coalesce(max(stamp), 0) from vectors where model = :model

-- name: vectors_after(stamp, model, most)
select stamp, passage_id, vector from vectors where stamp > :stamp and model = :model order by stamp limit :most

-- name: vectors_of(ids, model)
-- The plus signs here keep SQLite from reading all vectors of the model for each passage.
select j.value, v.vector from json_each(:ids) j join vectors v on v.passage_id = j.value and +v.model = :model

-- name: vectors_at(positions, model)
select j.value, v.vector from json_each(:positions) j
  join passages p on p.session_no = j.value >> 32 and p.place = j.value & 0xffffffff
  join vectors v on v.passage_id = p.id and +v.model = :model

-- name: float16_vectors(after, last, most)
select stamp, vector from vectors where stamp > :after and stamp <= :last order by stamp limit :most

-- name: change_vector(stamp, vector)!
update vectors set vector = :vector where stamp = :stamp

-- name: meta_value(key)$
select value from meta where key = :key

-- name: set_meta(key, value)!
update meta set value = :value where key = :key

-- name: drop_meta(key)!
delete from meta where key = :key

-- name: to_erase()
select passage_id from erased order by passage_id

-- name: is_erasing()$
select exists (select 1 from erased)

-- name: forget_erased()!
delete from erased

-- name: keep_code(passage_id)!
delete from erased where passage_id = :passage_id

-- name: newest_passage()$
select coalesce(max(id), 0) from passages

-- name: word_hits(word, before, most)$
-- The newest ids below `before`, as one JSON list: a third of the time that a row for each takes.
select json_group_array(rowid)
  from (select rowid from passage_index
         where passage_index match :word and rowid < :before order by rowid desc limit :most)

-- name: positions_of(ids, scope)
-- null for the scope means any.
select p.id, p.session_no << 32 | p.place from json_each(:ids) j join passages p on p.id = j.value
 where :scope is null
    or coalesce((select c.scope from scoped_sessions c where c.session_no = p.session_no), '') = :scope

-- name: ids_at(positions)
select p.id, j.value, length(p.text) from json_each(:positions) j
  join passages p on p.session_no = j.value >> 32 and p.place = j.value & 0xffffffff

-- name: known_speakers(names)
select value from json_each(:names) n where exists (select 1 from passages where speaker = n.value)

-- name: passages_at(positions, scope)
-- null for the scope means any. Whatever is found comes from here.
select p.id, j.value, p.kind, s.id, p.turn_key, p.turn_id, p.speaker, p.text, p.created, p.day
  from json_each(:positions) j
  join passages p on p.session_no = j.value >> 32 and p.place = j.value & 0xffffffff
  join sessions s on s.no = p.session_no
 where :scope is null
    or coalesce((select c.scope from scoped_sessions c where c.session_no = p.session_no), '') = :scope

-- name: asked_turns(turn_keys, text)
-- Those of the turns that have a passage with this text.
select distinct p.turn_key from json_each(:turn_keys) j join passages p on p.turn_key = j.value
 where p.text = :text

-- name: newest_turn_keys(session_id)
-- One row for each passage, newest first.
select turn_key from passages
 where session_no = (select no from sessions where id = :session_id) and turn_key is not null
 order by place desc

-- name: count_passages()^
select count(*) filter (where kind = 'turn'), count(*) filter (where kind = 'note') from passages

-- name: has_passages()$
select exists (select 1 from passages)

-- name: turn_keys_between(after, before)
select distinct turn_key from passages where turn_key is not null and created >= :after and created < :before

-- name: drop_notes_between(after, before)!
delete from passages where kind = 'note' and created >= :after and created < :before

-- name: turns_said_by(speaker)
select distinct s.id, p.turn_id from passages p join sessions s on s.no = p.session_no
 where p.speaker = :speaker and p.kind = 'turn'

-- name: passages_with(ids)
-- For a JSON list of ids.
select p.id, p.kind, p.text, p.speaker, s.id, p.turn_id, p.created
  from json_each(:ids) j join passages p on p.id = j.value join sessions s on s.no = p.session_no

-- name: count_shown(passage_id)!
insert into passage_uses (passage_id, shown) select id, 1 from passages where id = :passage_id
    on conflict (passage_id) do update set shown = shown + 1

-- name: count_used(passage_id, now)!
update passage_uses set used = used + 1, last_used = :now where passage_id = :passage_id

-- name: uses_of(ids)
select u.passage_id, u.shown, u.used from json_each(:ids) j join passage_uses u on u.passage_id = j.value
