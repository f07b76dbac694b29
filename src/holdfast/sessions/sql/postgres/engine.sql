-- name: lock_session(id)$
-- Changes of one session stand in line here, which makes its sequences dense and its queues ordered. The
-- key stays shareable, so rows that only refer to the session do not wait.
select 1 from sessions where id = :id for no key update

-- name: lock_session_of_turn(turn_id)$
-- The session that the turn was in when this began, locked as by lock_session.
select id from sessions where id = (select session_id from turns where id = :turn_id) for no key update

-- name: insert_message(session_id, turn_id, role, content, extra)$
-- Only an open session takes a message, and only a running turn of that session adds one. When the session
-- was last active is kept to the second.
with touched as (
    update sessions set last_active = store_now()
     where id = :session_id and last_active not between store_now() - 999999 and store_now()
)
insert into messages (session_id, seq, turn_id, role, content, extra, created)
select :session_id, (select coalesce(max(seq), -1) + 1 from messages where session_id = :session_id),
       :turn_id, :role, :content, :extra, store_now()
 where exists (select 1 from sessions where id = :session_id and ended is null)
   and (cast(:turn_id as text) is null
        or exists (select 1 from turns where id = :turn_id and session_id = :session_id and state = 'running'))
returning seq

-- name: lock_lease(name)^
-- Who holds a lease or was the last to hold it, with which token, and whether it has time left. Nobody takes
-- it over before this transaction has ended.
select holder, token, expires > store_now() from leases where name = :name and holder is not null
   for no key update

-- name: due_heads(provider, limit)
-- Sessions whose oldest open delivery may be claimed now, longest due first, each locked against other
-- claimers until the transaction ends. One that another claimer works on is passed over.
select heads.session_id
  from (select o.session_id from outbox o
         where o.id in (select min(id) from outbox
                         where provider = :provider and state in ('owed', 'claimed') group by session_id)
           and o.due <= (select store_now())
         order by o.due, o.id) heads
 where pg_try_advisory_xact_lock(
           hashtextextended(concat_ws(chr(31), current_schema(), cast(:provider as text), heads.session_id), 0))
 limit :limit

-- name: lock_run(provider, session_id, limit)
-- The open deliveries of a session from its head on, and whether each is due. Read only now, behind the
-- lock of due_heads, they show every claim that came before.
select id, due <= store_now() from outbox
 where provider = :provider and session_id = :session_id and state in ('owed', 'claimed')
 order by id limit :limit
   for update

-- name: claim_run(ids, lease, lease_us)
update outbox set state = 'claimed', lease = :lease, attempts = attempts + 1, due = store_now() + :lease_us
 where id in (select cast(value as bigint) from json_array_elements_text(cast(:ids as json)))
returning id, session_id, turn_id, provider, state, attempts, due, lease, last_error, created, settled

-- name: search_words(words, fragments, roles, sources, not_source, scope, sessions, since, until, limit)
-- Best match first. A filter is a JSON list; null means any.
with hits as (
    select m.id, m.session_id, m.seq, m.turn_id, m.role, m.created, s.source, s.title, m.content,
           q.query, ts_rank(m.search_vector, q.query, 1) as rank
      from (select to_tsquery('message_words', folded(:words)) as query) q
      join messages m on m.search_vector @@ q.query
      join sessions s on s.id = m.session_id
     where (cast(:roles as json) is null
            or m.role in (select value from json_array_elements_text(cast(:roles as json))))
       and (cast(:sources as json) is null
            or s.source in (select value from json_array_elements_text(cast(:sources as json))))
       and (cast(:not_source as text) is null or s.source <> :not_source)
       and (cast(:scope as text) is null or s.scope = :scope)
       and (cast(:sessions as json) is null
            or m.session_id in (select value from json_array_elements_text(cast(:sessions as json))))
       and m.created >= :since and m.created < :until
       and not exists (select 1 from json_array_elements_text(cast(:fragments as json)) f (value)
                        where strpos(lower(m.content collate "C"), f.value) = 0)
     order by rank desc, m.id limit :limit
)
select session_id, seq, turn_id, role, created, source, title, snippet(content, query), null
  from hits order by rank desc, id

-- name: search_fragments(fragments, roles, sources, not_source, scope, sessions, since, until, limit)
-- For what the word index can not hold (emoji, scripts without spaces): a scan, newest first.
select m.session_id, m.seq, m.turn_id, m.role, m.created, s.source, s.title, null, m.content
  from messages m
  join sessions s on s.id = m.session_id
 where m.carried = 0 and m.content is not null
   and (cast(:roles as json) is null
        or m.role in (select value from json_array_elements_text(cast(:roles as json))))
   and (cast(:sources as json) is null
        or s.source in (select value from json_array_elements_text(cast(:sources as json))))
   and (cast(:not_source as text) is null or s.source <> :not_source)
   and (cast(:scope as text) is null or s.scope = :scope)
   and (cast(:sessions as json) is null
        or m.session_id in (select value from json_array_elements_text(cast(:sessions as json))))
   and m.created >= :since and m.created < :until
   and not exists (select 1 from json_array_elements_text(cast(:fragments as json)) f (value)
                    where strpos(lower(m.content collate "C"), f.value) = 0)
 order by m.id desc limit :limit

-- name: lock_conversation(root)
-- Nobody adds to a conversation that is being deleted, nor refers to it.
select id from sessions where root = :root order by started, id for update

-- name: conversation_statuses(conversations)
-- How conversations stand: a JSON list of [root, name of its lease].
select s.root, s.id, s.title, s.pinned, s.archived, s.ended is not null,
       (select t.id from turns t where t.session_id = s.id and t.state = 'running'),
       (select count(*) from inbox i where i.session_id = s.id and i.state = 'waiting'),
       (select l.holder from leases l
         where l.name = p.value ->> 1 and l.holder is not null and l.expires > store_now())
  from json_array_elements(cast(:conversations as json)) p (value)
  join sessions s on s.root = p.value ->> 0
 where not exists (select 1 from sessions c where c.parent = s.id and c.relation = 'continuation')

-- name: chat_places(conversations)
-- The rooms in which conversations go on (a JSON list of their first sessions), and who was let in there last.
select r.session_id, r.id, r.account, r.chat, r.thread, r.is_direct, r.title, e.sender, p.name, e.event
  from json_array_elements_text(cast(:conversations as json)) c (value)
  join chat_rooms r on r.session_id = c.value
  left join chat_events e on e.id = (select max(l.id) from chat_events l
                                      where l.room_id = r.id and l.state = 'accepted' and l.sender <> '')
  left join chat_people p on p.account = r.account and p.person = e.sender
 order by r.id

-- name: tokens_used(scope, period_us)$
-- Input and output of the turns of a scope that ended lately, and of what it asked models outside of turns; those of
-- deleted conversations included.
select coalesce(sum(used.tokens), 0)
  from (select cast(cast(t.timeline as json) #>> '{tokens,0}' as bigint)
                    + cast(cast(t.timeline as json) #>> '{tokens,1}' as bigint) as tokens
          from sessions s join turns t on t.session_id = s.id
         where s.scope = :scope and t.ended > store_now() - :period_us
        union all
        select u.input_tokens + u.output_tokens
          from sessions s join model_usage u on u.root = s.id
         where s.scope = :scope and u.turn_id is null and u.created > store_now() - :period_us
        union all
        select d.tokens from deleted_turns d
         where d.scope = :scope and d.ended > store_now() - :period_us) used

-- name: keep_deleted_turns(root, keep_us)!
-- The owner's turns count for no limit.
insert into deleted_turns (scope, started, ended, tokens)
select s.scope, t.started, t.ended, coalesce(cast(cast(t.timeline as json) #>> '{tokens,0}' as bigint)
                    + cast(cast(t.timeline as json) #>> '{tokens,1}' as bigint), 0)
  from sessions s join turns t on t.session_id = s.id
 where s.root = :root and s.scope <> '' and coalesce(t.ended, t.started) > store_now() - :keep_us

-- name: count_stored(scope, most)!
-- Add what has come since to the counted sizes of a scope's sessions, of so many at a time. What waits in the inbox,
-- and what stands behind it, may still change and is counted later. One that is being deleted is left out.
insert into stored_sizes (session_id, next_seq, next_inbox, bytes)
select n.id, n.end_seq, case when n.end_inbox > n.next_inbox then n.end_inbox else n.next_inbox end,
       n.bytes
       + coalesce((select sum(coalesce(octet_length(m.content), 0) + coalesce(octet_length(m.extra), 0)) from messages m
                    where m.session_id = n.id and m.seq >= n.next_seq and m.seq < n.end_seq), 0)
       + coalesce((select sum(coalesce(octet_length(i.message), 0)) from inbox i
                    where i.session_id = n.id and i.id >= n.next_inbox and i.id < n.end_inbox), 0)
  from (select e.* from (
        select s.id, coalesce(z.next_seq, 0) as next_seq, coalesce(z.next_inbox, 0) as next_inbox,
               coalesce(z.bytes, 0) as bytes,
               (select coalesce(max(m.seq), -1) + 1 from messages m where m.session_id = s.id) as end_seq,
               coalesce((select min(w.id) from inbox w where w.session_id = s.id and w.state = 'waiting'),
                        (select max(i.id) + 1 from inbox i where i.session_id = s.id), 0) as end_inbox
          from sessions s left join stored_sizes z on z.session_id = s.id
         where s.scope = :scope) e
         where e.end_seq > e.next_seq or e.end_inbox > e.next_inbox
         order by e.id limit :most) n
  join sessions kept on kept.id = n.id
   for key share of kept skip locked
on conflict (session_id) do update
   set next_seq = excluded.next_seq, next_inbox = excluded.next_inbox, bytes = excluded.bytes

-- name: stored_size(scope)$
-- What is counted of a scope, and what waits in its inboxes or stands behind that.
select cast(coalesce(sum(coalesce(z.bytes, 0)
            + coalesce((select sum(coalesce(octet_length(i.message), 0)) from inbox i
                         where i.session_id = s.id and i.id >= coalesce(z.next_inbox, 0)), 0)), 0) as bigint)
  from sessions s left join stored_sizes z on z.session_id = s.id where s.scope = :scope
