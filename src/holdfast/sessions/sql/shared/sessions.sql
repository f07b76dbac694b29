-- name: insert_session(id, parent, relation, source, title, scope)$
-- When it started; nothing where the id was not free. A second continuation breaks a constraint. With a parent,
-- the schema gives it the parent's scope.
insert into sessions (id, parent, relation, source, title, scope, started)
values (:id, :parent, :relation, :source, :title, :scope, store_now())
on conflict (id) do nothing
returning started

-- name: get_session(id)^
select id, parent, relation, source, title, started, ended, end_reason, generation, committed_generation,
       scope
  from sessions where id = :id

-- name: end_session(id, end_reason)!
update sessions set ended = store_now(), end_reason = :end_reason, changed = store_now()
 where id = :id and ended is null

-- name: rename_conversation(root, title)!
update sessions set title = :title, changed = store_now() where root = :root

-- name: note_titled_by(root, titled_by)!
-- Who decided about the title last.
insert into conversation_settings (root, titled_by) values (:root, :titled_by)
on conflict (root) do update set titled_by = excluded.titled_by

-- name: name_conversation(root, title)!
-- A title that a model made: only where there is none, and no person has decided about it.
update sessions set title = :title, changed = store_now()
 where root = :root and title is null
   and not exists (select 1 from conversation_settings c where c.root = :root and c.titled_by is not null)

-- name: is_untitled(id)$
-- The conversation of a session.
select r.title is null and not exists (
       select 1 from conversation_settings c where c.root = r.id and c.titled_by is not null)
  from sessions s join sessions r on r.id = s.root where s.id = :id

-- name: tool_profile(root)$
select tool_profile from conversation_settings where root = :root

-- name: set_tool_profile(root, tool_profile)!
insert into conversation_settings (root, tool_profile) values (:root, :tool_profile)
on conflict (root) do update set tool_profile = excluded.tool_profile

-- name: copy_tool_profile(root, child)!
-- A branch begins with the tool profile of the conversation that it leaves.
insert into conversation_settings (root, tool_profile)
select :child, tool_profile from conversation_settings where root = :root and tool_profile is not null

-- name: pin_conversation(root, pinned)!
update sessions set pinned = :pinned, changed = store_now() where root = :root

-- name: archive_conversation(root, archived)!
update sessions set archived = :archived, changed = store_now() where root = :root

-- name: touch_session(id)!
-- Something was said here just now.
update sessions set last_active = store_now() where id = :id

-- name: children(id)
select id from sessions where parent = :id order by started, id

-- name: continuation(id)$
select id from sessions where parent = :id and relation = 'continuation'

-- name: live_end(id)$
-- The last session of the conversation, followed from any of its sessions.
with recursive line (id, depth) as (
    select id, 0 from sessions where id = :id
    union all
    select s.id, line.depth + 1 from line join sessions s on s.parent = line.id and s.relation = 'continuation'
)
select id from line order by depth desc limit 1

-- name: live_session(id)^
-- The same, with its start, its scope, the conversation's tool profile, the turn that is open there and how many
-- messages it has.
with recursive line (id, started, scope, root, depth) as (
    select id, started, scope, root, 0 from sessions where id = :id
    union all
    select s.id, s.started, s.scope, s.root, line.depth + 1
      from line join sessions s on s.parent = line.id and s.relation = 'continuation'
)
select l.id, l.started, l.scope, c.tool_profile,
       (select t.id from turns t where t.session_id = l.id and t.state = 'running'),
       (select coalesce(max(m.seq), -1) + 1 from messages m where m.session_id = l.id)
  from (select id, started, scope, root from line order by depth desc limit 1) l
  left join conversation_settings c on c.root = l.root

-- name: root(id)$
select root from sessions where id = :id

-- name: lineage(id)
-- The conversation a session belongs to: from where it began along the continuations.
with recursive line (id, depth) as (
    select root, 0 from sessions where id = :id
    union all
    select s.id, line.depth + 1 from line join sessions s on s.parent = line.id and s.relation = 'continuation'
)
select s.id, s.parent, s.relation, s.source, s.title, s.started, s.ended, s.end_reason,
       s.generation, s.committed_generation, s.scope
  from line join sessions s on s.id = line.id order by line.depth

-- name: uncommitted_holders(root)
-- Who ran the turns of a conversation that no boundary commit has covered yet.
select distinct t.holder from sessions s join turns t on t.session_id = s.id
 where s.root = :root and s.generation > s.committed_generation
   and t.generation > s.committed_generation and t.holder is not null

-- name: uncommitted_sessions()
-- What a subagent did is its parent's to remember: its session, and what continues it, is left out.
select s.id from sessions s join sessions r on r.id = s.root
 where s.generation > s.committed_generation and (r.relation is null or r.relation = 'branch')
 order by s.id

-- name: mark_committed(id, generation)!
update sessions set committed_generation = :generation
 where id = :id and committed_generation < :generation and generation >= :generation
