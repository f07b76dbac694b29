-- name: insert_session(id, parent, relation, source, title)!
-- The row count tells whether the id was free.
insert into sessions (id, parent, relation, source, title, started)
values (:id, :parent, :relation, :source, :title, store_now())
on conflict (id) do nothing

-- name: insert_continuation(id, parent, source, title)!
-- The row count tells whether the id was free; a second continuation breaks a constraint.
insert into sessions (id, parent, relation, source, title, started)
values (:id, :parent, 'continuation', :source, :title, store_now())
on conflict (id) do nothing

-- name: get_session(id)^
select id, parent, relation, source, title, started, ended, end_reason, generation, committed_generation
  from sessions where id = :id

-- name: end_session(id, end_reason)!
update sessions set ended = store_now(), end_reason = :end_reason where id = :id and ended is null

-- name: set_title(id, title)!
update sessions set title = :title where id = :id

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

-- name: lineage(id)
-- The conversation a session belongs to: back to where it began, then along the continuations.
with recursive origin (id, parent, relation, depth) as (
    select id, parent, relation, 0 from sessions where id = :id
    union all
    select s.id, s.parent, s.relation, origin.depth + 1
      from origin join sessions s on s.id = origin.parent where origin.relation = 'continuation'
), line (id, depth) as (
    select id, 0 from origin where relation is null or relation <> 'continuation'
    union all
    select s.id, line.depth + 1 from line join sessions s on s.parent = line.id and s.relation = 'continuation'
)
select id from line order by depth

-- name: uncommitted_sessions()
-- What a subagent did is its parent's to remember: its session, and what continues it, is left out.
with recursive origin (id, parent, relation) as (
    select id, parent, relation from sessions where generation > committed_generation
    union all
    select origin.id, s.parent, s.relation
      from origin join sessions s on s.id = origin.parent where origin.relation = 'continuation'
)
select id from origin where relation is null or relation = 'branch' order by id

-- name: mark_committed(id, generation)!
update sessions set committed_generation = :generation
 where id = :id and committed_generation < :generation and generation >= :generation
