-- name: insert_turn(id, session_id, holder)^
-- No row unless the session is open and the turn's id was free.
insert into turns (id, session_id, state, started, holder)
select :id, id, 'running', store_now(), :holder from sessions where id = :session_id and ended is null
on conflict (id) do nothing
returning id, session_id, state, started, ended, reason, generation

-- name: insert_completed_turn(id, session_id, generation, provider_messages)!
-- A turn that ran elsewhere and is recorded whole.
insert into turns (id, session_id, state, started, ended, generation, provider_messages)
values (:id, :session_id, 'completed', store_now(), store_now(), :generation, :provider_messages)

-- name: insert_recorded_message(session_id, turn_id, role, content, extra)!
insert into messages (session_id, seq, turn_id, role, content, extra, created)
values (:session_id, (select coalesce(max(seq), -1) + 1 from messages where session_id = :session_id),
        :turn_id, :role, :content, :extra, store_now())

-- name: turn_provider_messages(id)^
select t.provider_messages, t.ended, s.scope from turns t join sessions s on s.id = t.session_id
 where t.id = :id

-- name: forget_provider_messages(id)!
update turns set provider_messages = null
 where id = :id and provider_messages is not null
   and not exists (select 1 from outbox where turn_id = :id and state not in ('delivered', 'dropped'))

-- name: get_turn(id)^
select id, session_id, state, started, ended, reason, generation from turns where id = :id

-- name: turn_timeline(id)$
select timeline from turns where id = :id

-- name: running_turn(session_id)^
select id, session_id, state, started, ended, reason, generation
  from turns where session_id = :session_id and state = 'running'

-- name: unfinished_turns()
-- A subagent's is its caller's business.
select t.id, t.session_id, t.state, t.started, t.ended, t.reason, t.generation
  from turns t join sessions s on s.id = t.session_id join sessions r on r.id = s.root
 where t.state = 'running' and (r.relation is null or r.relation <> 'delegate') order by t.started, t.id

-- name: turns_running(scope)$
select count(*) from turns t join sessions s on s.id = t.session_id where s.scope = :scope and t.state = 'running'

-- name: finish_turn(id, state, reason, timeline)^
-- A completed turn gets its session's generation, which was counted up for it.
update turns set state = :state, ended = store_now(), reason = :reason,
       generation = case when cast(:state as text) = 'completed'
                         then (select s.generation from sessions s where s.id = turns.session_id) end,
       timeline = :timeline, partial = null, partial_after = null
 where id = :id and state = 'running'
returning id, session_id, state, started, ended, reason, generation

-- name: resume_turn(id, holder)!
-- Going on with a turn that was handed over is no resumption after a crash.
update turns set resume_count = resume_count + case when holder = '' then 0 else 1 end, holder = :holder
 where id = :id and state = 'running'

-- name: hand_over_turn(id)!
update turns set holder = '' where id = :id and state = 'running'

-- name: turn_holder(id)$
select holder from turns where id = :id

-- name: turn_resume_count(id)$
select resume_count from turns where id = :id

-- name: save_partial(id, partial)!
update turns set partial = :partial,
       partial_after = (select count(*) from messages where turn_id = :id and carried = 0)
 where id = :id and state = 'running'

-- name: get_partial(id)$
-- Whole messages that came after it have taken its place.
select partial from turns
 where id = :id and partial_after = (select count(*) from messages where turn_id = :id and carried = 0)

-- name: next_generation(session_id)$
update sessions set generation = generation + 1, last_active = store_now()
 where id = :session_id returning generation

-- name: move_running_turn(parent, child)!
update turns set session_id = :child where session_id = :parent and state = 'running'

-- name: turns_begun(scope, period_us)$
-- How many turns of a scope began lately, or wait to begin; those of deleted conversations count too.
select (select count(*) from sessions s join turns t on t.session_id = s.id
         where s.scope = :scope and t.started > store_now() - :period_us)
     + (select count(*) from sessions s join inbox i on i.session_id = s.id
         where s.scope = :scope and i.state = 'waiting')
     + (select count(*) from deleted_turns d where d.scope = :scope and d.started > store_now() - :period_us)
