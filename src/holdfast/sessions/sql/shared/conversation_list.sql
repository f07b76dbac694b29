-- name: list_sessions(source, not_source, scope, archived, pinned, folder, limit, offset)
-- One row for each conversation, at its live end, the one last active first. Subagents' are left out.
-- null for a filter means any.
select s.id, s.parent, s.relation, s.source, s.title, s.started, s.ended, s.end_reason,
       s.generation, s.committed_generation, s.scope, s.root, s.pinned, s.archived, s.last_active,
       coalesce((select max(m.seq) + 1 from messages m where m.session_id = s.id), 0) as messages,
       (select substr(m.content, 1, 1000) from messages m
         where m.session_id = s.root and m.seq < 20 and m.role = 'user' order by m.seq limit 1) as opening,
       (select coalesce(p.title, (select substr(m.content, 1, 1000) from messages m
                 where m.session_id = p.root and m.seq < 20 and m.role = 'user' order by m.seq limit 1), '')
          from sessions r join sessions p on p.id = r.parent
         where r.id = s.root and r.relation = 'branch') as branch_of,
       c.model, c.workspace, c.folder
  from (select l.id from sessions l
         where l.listed = 1
           and (cast(:archived as integer) is null or l.archived = :archived)
           and (cast(:pinned as integer) is null or l.pinned = :pinned)
           and (cast(:source as text) is null or l.source = :source)
           and (cast(:not_source as text) is null or l.source <> :not_source)
           and (cast(:scope as text) is null or l.scope = :scope)
           and (cast(:folder as text) is null
                or exists (select 1 from conversation_choices f where f.root = l.root and f.folder = :folder))
         order by l.last_active desc, l.id desc
         limit :limit offset :offset) page
  join sessions s on s.id = page.id
  left join conversation_choices c on c.root = s.root
 order by s.last_active desc, s.id desc

-- name: listed_session(id)^
-- One conversation at its live end, as the list shows it.
select s.id, s.parent, s.relation, s.source, s.title, s.started, s.ended, s.end_reason,
       s.generation, s.committed_generation, s.scope, s.root, s.pinned, s.archived, s.last_active,
       coalesce((select max(m.seq) + 1 from messages m where m.session_id = s.id), 0) as messages,
       (select substr(m.content, 1, 1000) from messages m
         where m.session_id = s.root and m.seq < 20 and m.role = 'user' order by m.seq limit 1) as opening,
       (select coalesce(p.title, (select substr(m.content, 1, 1000) from messages m
                 where m.session_id = p.root and m.seq < 20 and m.role = 'user' order by m.seq limit 1), '')
          from sessions r join sessions p on p.id = r.parent
         where r.id = s.root and r.relation = 'branch') as branch_of,
       c.model, c.workspace, c.folder
  from sessions s left join conversation_choices c on c.root = s.root where s.id = :id

-- name: copy_messages(parent, child, before)!
-- A branch begins with copies of what was said before the point where it leaves.
insert into messages (session_id, seq, turn_id, role, content, extra, created, carried)
select :child, seq, null, role, content, extra, created, 1
  from messages where session_id = :parent and seq < :before order by seq

-- name: unused_sessions(source, period_us, limit)
-- Conversations of a source in which nothing happened lately, at their live ends; pinned and archived stay.
select s.id from sessions s
 where s.listed = 1 and s.source = :source and s.pinned = 0 and s.archived = 0
   and s.last_active < store_now() - :period_us
 order by s.last_active, s.id limit :limit
