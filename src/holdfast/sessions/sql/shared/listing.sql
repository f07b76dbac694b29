-- name: list_sessions(source, limit, offset)
-- One row for each conversation, at its live end, the one last spoken in first. Subagents' are left out.
select s.id, s.parent, s.relation, s.source, s.title, s.started, s.ended, s.end_reason,
       s.generation, s.committed_generation,
       coalesce((select max(m.seq) + 1 from messages m where m.session_id = s.id), 0) as messages,
       coalesce((select m.created from messages m where m.session_id = s.id order by m.seq desc limit 1),
                s.started) as last_spoken,
       (select m.content from messages m
         where m.session_id = s.id and m.role = 'user' order by m.seq limit 1) as opening
  from sessions s
 where (s.relation is null or s.relation <> 'delegate')
   and (cast(:source as text) is null or s.source = :source)
   and not exists (select 1 from sessions c where c.parent = s.id and c.relation = 'continuation')
 order by last_spoken desc, s.id desc
 limit :limit offset :offset

-- name: copy_messages(parent, child, before)!
-- A branch begins with copies of what was said before the point where it leaves.
insert into messages (session_id, seq, turn_id, role, content, extra, created, carried)
select :child, seq, null, role, content, extra, created, 1
  from messages where session_id = :parent and seq < :before order by seq
