-- name: conversations_to_delete(root)
-- The conversation, then the subagents that worked for it, for those, and so on: the deepest last.
with recursive doomed (root, depth) as (
    select id, 0 from sessions where id = :root
    union all
    select d.id, doomed.depth + 1
      from doomed
      join sessions p on p.root = doomed.root
      join sessions d on d.parent = p.id and d.relation = 'delegate'
)
select root from doomed order by depth, root

-- name: running_in_conversation(root)$
select t.id from sessions s join turns t on t.session_id = s.id and t.state = 'running'
 where s.root = :root limit 1

-- name: waiting_in_conversation(root)$
select count(*) from sessions s join inbox i on i.session_id = s.id and i.state = 'waiting'
 where s.root = :root

-- name: owed_by_conversation(root)
select o.provider, count(*) from sessions s join outbox o on o.session_id = s.id
 where s.root = :root and o.state in ('owed', 'claimed', 'set_aside')
 group by o.provider order by o.provider

-- name: turns_of_conversation(root)
select t.id from sessions s join turns t on t.session_id = s.id where s.root = :root

-- name: sessions_of_conversation(root)
select id from sessions where root = :root order by started, id

-- name: free_addressed_messages(root)!
-- A message of another conversation may name a turn of this one.
update inbox set addressed_to = null
 where addressed_to in (select t.id from sessions s join turns t on t.session_id = s.id where s.root = :root)

-- name: delete_inbox(root)!
delete from inbox where session_id in (select id from sessions where root = :root)

-- name: delete_outbox(root)!
delete from outbox where session_id in (select id from sessions where root = :root)

-- name: delete_messages(root)!
delete from messages where session_id in (select id from sessions where root = :root)

-- name: delete_turns(root)!
delete from turns where session_id in (select id from sessions where root = :root)

-- name: delete_lease(name)!
delete from leases where name = :name

-- name: free_branches(root)!
-- A branch has copies of what it began with; it stands alone now.
update sessions set parent = null, relation = null
 where relation = 'branch' and parent in (select id from sessions where root = :root)

-- name: delete_sessions(root)!
delete from sessions where root = :root

-- name: note_deletion(root)!
insert into deletions (root, deleted) values (:root, store_now())
on conflict (root) do update set deleted = excluded.deleted

-- name: forget_deletions(keep_us)!
delete from deletions where deleted < store_now() - :keep_us

-- name: keep_deleted_usage(root, keep_us)!
-- What was used outside of turns, as a row that counts as none.
insert into deleted_turns (scope, started, ended, tokens)
select s.scope, 0, max(u.created), sum(u.input_tokens + u.output_tokens)
  from sessions s join model_usage u on u.root = s.id
 where s.id = :root and s.scope <> '' and u.turn_id is null and u.created > store_now() - :keep_us
 group by s.scope

-- name: forget_deleted_turns(keep_us)!
delete from deleted_turns where coalesce(ended, started) < store_now() - :keep_us
