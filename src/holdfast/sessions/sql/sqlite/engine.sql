-- name: next_seq()^
-- Where the next message of a session goes (its id; then twice the turn's id, or null for no turn), when the
-- session was last active, and what time it is. Only an open session takes a message, and only a running
-- turn of that session adds one.
select (select coalesce(max(m.seq), -1) + 1 from messages m where m.session_id = s.id), s.last_active, store_now()
  from sessions s
 where s.id = ? and s.ended is null
   and (? is null
        or exists (select 1 from turns t where t.id = ? and t.session_id = s.id and t.state = 'running'))

-- name: insert_message()!
-- At its place, by (session_id, seq, turn_id, role, content, extra, created).
insert into messages (session_id, seq, turn_id, role, content, extra, created)
values (?, ?, ?, ?, ?, ?, ?)

-- name: last_searchable_message()$
select coalesce(max(id), 0) from searchable_messages

-- name: last_indexed_message()$
select coalesce(max(id), 0) from message_index_docsize

-- name: unindexed_messages()$
-- Whether the search index is behind the messages.
select exists (select 1 from searchable_messages
                where id > (select coalesce(max(id), 0) from message_index_docsize))

-- name: index_messages(most, most_characters)!
-- The next messages in order: at most so many, and none past the one that reaches so many characters.
with missing (id, size) as (
    select id, length(content) from searchable_messages
     where id > (select coalesce(max(id), 0) from message_index_docsize) order by id limit :most
), placed (id, before) as (
    select id, sum(size) over (order by id) - size from missing
)
insert into message_index (rowid, content)
select id, content from searchable_messages
 where id >= (select min(id) from missing)
   and id <= (select max(id) from placed where before < :most_characters)
 order by id

-- name: lock_lease(name)^
-- Who holds a lease or was the last to hold it, with which token, and whether it has time left.
select holder, token, expires > store_now() from leases where name = :name and holder is not null

-- name: due_heads(provider, limit)
-- Sessions whose oldest open delivery may be claimed now, longest due first.
select o.session_id from outbox o
 where o.id in (select min(id) from outbox
                 where provider = :provider and state in ('owed', 'claimed') group by session_id)
   and o.due <= (select store_now())
 order by o.due, o.id limit :limit

-- name: lock_run(provider, session_id, limit)
-- The open deliveries of a session from its head on, and whether each is due.
select id, due <= (select store_now()) from outbox
 where provider = :provider and session_id = :session_id and state in ('owed', 'claimed')
 order by id limit :limit

-- name: claim_run(ids, lease, lease_us)
update outbox set state = 'claimed', lease = :lease, attempts = attempts + 1, due = store_now() + :lease_us
 where id in (select value from json_each(:ids))
returning id, session_id, turn_id, provider, state, attempts, due, lease, last_error, created, settled

-- name: search_words(words, fragments, roles, sources, not_source, scope, sessions, since, until, limit)
-- Best match first. A filter is a JSON list; null means any. FTS5's snippet costs the square of the number
-- of matches in a text, so a long text is given out instead, up to where it is worth a look.
select m.session_id, m.seq, m.turn_id, m.role, m.created, s.source, s.title,
       case when length(m.content) <= 5000
            then snippet(message_index, 0, char(2), char(3), '…', 24) end,
       case when length(m.content) > 5000 then substr(m.content, 1, 200000) end
  from message_index
  join messages m on m.id = message_index.rowid
  join sessions s on s.id = m.session_id
 where message_index match :words
   and (:roles is null or m.role in (select value from json_each(:roles)))
   and (:sources is null or s.source in (select value from json_each(:sources)))
   and (:not_source is null or s.source <> :not_source)
   and (:scope is null or s.scope = :scope)
   and (:sessions is null or m.session_id in (select value from json_each(:sessions)))
   and m.created >= :since and m.created < :until
   and not exists (select 1 from json_each(:fragments) f where instr(lower(m.content), f.value) = 0)
 order by message_index.rank limit :limit

-- name: search_fragments(fragments, roles, sources, not_source, scope, sessions, since, until, limit)
-- For what the word index can't hold (emoji, scripts without spaces): a scan, newest first.
select m.session_id, m.seq, m.turn_id, m.role, m.created, s.source, s.title, null, m.content
  from messages m
  join sessions s on s.id = m.session_id
 where m.carried = 0 and m.content is not null
   and (:roles is null or m.role in (select value from json_each(:roles)))
   and (:sources is null or s.source in (select value from json_each(:sources)))
   and (:not_source is null or s.source <> :not_source)
   and (:scope is null or s.scope = :scope)
   and (:sessions is null or m.session_id in (select value from json_each(:sessions)))
   and m.created >= :since and m.created < :until
   and not exists (select 1 from json_each(:fragments) f where instr(lower(m.content), f.value) = 0)
 order by m.id desc limit :limit

-- name: unindex_conversation(root)!
-- Only what is in the index may be taken out of it.
insert into message_index (message_index, rowid, content)
select 'delete', m.id, m.content
  from sessions s join messages m on m.session_id = s.id
 where s.root = :root and m.carried = 0 and m.content is not null
   and m.id <= (select coalesce(max(id), 0) from message_index_docsize)

-- name: conversation_statuses(conversations)
-- How conversations stand: a JSON list of [root, name of its lease].
select s.root, s.id, s.title, s.pinned, s.archived, s.ended is not null,
       (select t.id from turns t where t.session_id = s.id and t.state = 'running'),
       (select count(*) from inbox i where i.session_id = s.id and i.state = 'waiting'),
       (select l.holder from leases l
         where l.name = json_extract(p.value, '$[1]') and l.holder is not null and l.expires > store_now())
  from json_each(:conversations) p
  join sessions s on s.root = json_extract(p.value, '$[0]')
 where not exists (select 1 from sessions c where c.parent = s.id and c.relation = 'continuation')

-- name: chat_places(conversations)
-- The rooms in which conversations go on (a JSON list of their first sessions), and who was let in there last.
select r.session_id, r.id, r.account, r.chat, r.thread, r.is_direct, r.title, e.sender, p.name, e.event
  from json_each(:conversations) c
  join chat_rooms r on r.session_id = c.value
  left join chat_events e on e.id = (select max(l.id) from chat_events l
                                      where l.room_id = r.id and l.state = 'accepted' and l.sender <> '')
  left join chat_people p on p.account = r.account and p.person = e.sender
 order by r.id

-- name: tokens_used(scope, period_us)$
-- Input and output of the turns of a scope that ended lately, and of what it asked models outside of turns; those of
-- deleted conversations included.
select coalesce(sum(used.tokens), 0)
  from (select json_extract(t.timeline, '$.tokens[0]') + json_extract(t.timeline, '$.tokens[1]') as tokens
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
select s.scope, t.started, t.ended, coalesce(json_extract(t.timeline, '$.tokens[0]') + json_extract(t.timeline, '$.tokens[1]'), 0)
  from sessions s join turns t on t.session_id = s.id
 where s.root = :root and s.scope <> '' and coalesce(t.ended, t.started) > store_now() - :keep_us

-- name: count_stored(scope, most)!
-- Add what has come since to the counted sizes of a scope's sessions, of so many at a time. What waits in the inbox,
-- and what stands behind it, may still change and is counted later.
insert into stored_sizes (session_id, next_seq, next_inbox, bytes)
select n.id, n.end_seq, case when n.end_inbox > n.next_inbox then n.end_inbox else n.next_inbox end,
       n.bytes
       + coalesce((select sum(coalesce(length(cast(m.content as blob)), 0) + coalesce(length(cast(m.extra as blob)), 0)) from messages m
                    where m.session_id = n.id and m.seq >= n.next_seq and m.seq < n.end_seq), 0)
       + coalesce((select sum(coalesce(length(cast(i.message as blob)), 0)) from inbox i
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
 where true
on conflict (session_id) do update
   set next_seq = excluded.next_seq, next_inbox = excluded.next_inbox, bytes = excluded.bytes

-- name: stored_size(scope)$
-- What is counted of a scope, and what waits in its inboxes or stands behind that.
select cast(coalesce(sum(coalesce(z.bytes, 0)
            + coalesce((select sum(coalesce(length(cast(i.message as blob)), 0)) from inbox i
                         where i.session_id = s.id and i.id >= coalesce(z.next_inbox, 0)), 0)), 0) as bigint)
  from sessions s left join stored_sizes z on z.session_id = s.id where s.scope = :scope
