-- name: store_activity(since, overlap)
-- All that a process has to know about the others, in one statement. `kind` tells what a row is about:
--   now        the store's time, as its mark
--   busy       a conversation with an open turn or a waiting message; who holds its lease
--   recent     a conversation that was changed, active or deleted since a time (null: just now)
--   interrupt  an open turn that is asked to stop
--   answer     the answer to what an open turn asked, as its mark
-- The mark of a conversation differs whenever something was stored in it. A subagent's turn is its caller's
-- business. The cost grows with what is found, not with the number of conversations.
with busy (session_id) as (
    select session_id from turns where state = 'running'
    union
    select session_id from inbox where state = 'waiting'
), recent (session_id) as (
    select id from sessions where changed >= coalesce(cast(:since as bigint), store_now()) - :overlap and listed = 1
    union
    select id from sessions where last_active >= coalesce(cast(:since as bigint), store_now()) - :overlap and listed = 1
)
select 'now' as kind, '' as id, '' as turn_id, '' as holder, cast(store_now() as text) as mark
union all
select 'busy', s.root, coalesce(t.id, ''), coalesce(l.holder, ''),
       s.id || ' ' || coalesce(t.resume_count, 0) || ' ' || coalesce(length(t.partial), 0)
       || ' ' || coalesce((select max(m.seq) from messages m where m.session_id = s.id), -1)
       || ' ' || coalesce((select count(*) || '/' || max(i.id) from inbox i
                            where i.session_id = s.id and i.state = 'waiting'), '')
       || ' ' || coalesce((select count(*) || '/' || max(a.created) from asks a
                            where a.turn_id = t.id and a.state = 'open'), '')
  from busy
  join sessions s on s.id = busy.session_id
  join sessions r on r.id = s.root and (r.relation is null or r.relation <> 'delegate')
  left join turns t on t.session_id = s.id and t.state = 'running'
  left join leases l on l.name = 'session:' || s.root and l.holder is not null and l.expires > store_now()
union all
select 'recent', s.root, '', coalesce(l.holder, ''),
       s.id || ' ' || s.changed || ' ' || s.last_active
       || ' ' || coalesce((select max(m.seq) from messages m where m.session_id = s.id), -1)
  from recent
  join sessions s on s.id = recent.session_id
  left join leases l on l.name = 'session:' || s.root and l.holder is not null and l.expires > store_now()
union all
select 'recent', root, '', '', 'deleted'
  from deletions where deleted >= coalesce(cast(:since as bigint), store_now()) - :overlap
union all
select 'interrupt', t.id, t.id, '', ''
  from turns t
 where t.state = 'running'
   and (exists (select 1 from leases l
                 where l.name = 'stop:' || t.id and l.holder is not null and l.expires > store_now())
        or exists (select 1 from inbox i
                    where i.addressed_to = t.id and i.state = 'waiting' and i.mode = 'interrupt'))
union all
select 'answer', a.id, a.turn_id, '', a.answer
  from turns t join asks a on a.turn_id = t.id and a.state = 'answered'
 where t.state = 'running'
