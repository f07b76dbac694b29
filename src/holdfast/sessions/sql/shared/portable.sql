-- name: turns_of_session(session_id)
select id, session_id, state, started, ended, reason, generation
  from turns where session_id = :session_id order by started, id

-- name: import_session(id, parent, relation, source, title, started, ended, end_reason, generation, committed_generation, scope)!
insert into sessions (id, parent, relation, source, title, started, ended, end_reason, generation,
                      committed_generation, scope)
values (:id, :parent, :relation, :source, :title, :started, :ended, :end_reason, :generation,
        :committed_generation, :scope)
on conflict (id) do nothing

-- name: import_turn(id, session_id, state, started, ended, reason, generation)!
insert into turns (id, session_id, state, started, ended, reason, generation)
values (:id, :session_id, :state, :started, :ended, :reason, :generation)

-- name: import_message(session_id, seq, turn_id, role, content, extra, created, carried)!
insert into messages (session_id, seq, turn_id, role, content, extra, created, carried)
values (:session_id, :seq, :turn_id, :role, :content, :extra, :created, :carried)

-- name: import_waiting_message(session_id, mode, message, addressed_to, created)!
insert into inbox (session_id, mode, message, addressed_to, created)
values (:session_id, :mode, :message, :addressed_to, :created)

-- name: set_last_active(id)!
-- An imported session was last active when its last message was stored.
update sessions set last_active = coalesce(
    (select m.created from messages m where m.session_id = :id order by m.seq desc limit 1), started)
 where id = :id
