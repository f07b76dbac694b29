-- name: get_messages(session_id)
select role, content, extra from messages where session_id = :session_id order by seq

-- name: read_messages(session_id, start, limit)
select session_id, seq, turn_id, role, content, extra, created, carried
  from messages where session_id = :session_id and seq >= :start order by seq limit :limit

-- name: read_messages_before(session_id, before, limit)
-- The last ones that stand before a place, the nearest first.
select session_id, seq, turn_id, role, content, extra, created, carried
  from messages where session_id = :session_id and seq < :before order by seq desc limit :limit

-- name: turn_messages(turn_id)
-- In the order they were said; what a rotation carried along is there once, as it was first stored.
select role, content, extra from messages where turn_id = :turn_id and carried = 0 order by id

-- name: turn_steps(turn_id)
-- The same, each with its place and time.
select session_id, seq, turn_id, role, content, extra, created, carried
  from messages where turn_id = :turn_id and carried = 0 order by id

-- name: uncommitted_messages(session_id, through)
-- What was said in the completed turns that no boundary commit has covered and nobody
-- had forgotten, up to a generation or (null) all.
select m.role, m.content, m.extra
  from turns t
  join sessions s on s.id = t.session_id
  join messages m on m.turn_id = t.id and m.carried = 0
 where t.session_id = :session_id and t.generation > s.committed_generation
   and not exists (select 1 from forgotten_turns f where f.turn_id = t.id)
   and (cast(:through as bigint) is null or t.generation <= :through)
 order by t.generation, m.id

-- name: message_count(session_id)$
select coalesce(max(seq), -1) + 1 from messages where session_id = :session_id

-- name: carry_messages(parent, child, carry_from, shift)!
insert into messages (session_id, seq, turn_id, role, content, extra, created, carried)
select :child, seq - :carry_from + :shift, turn_id, role, content, extra, created, 1
  from messages where session_id = :parent and seq >= :carry_from order by seq
