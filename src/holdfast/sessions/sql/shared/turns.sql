-- name: insert_turn(id, session_id)!
insert into turns (id, session_id, state, started)
select :id, id, 'running', store_now() from sessions where id = :session_id and ended is null

-- name: get_turn(id)^
select id, session_id, state, started, ended, reason, generation from turns where id = :id

-- name: running_turn(session_id)^
select id, session_id, state, started, ended, reason, generation
  from turns where session_id = :session_id and state = 'running'

-- name: unfinished_turns()
select id, session_id, state, started, ended, reason, generation
  from turns where state = 'running' order by started, id

-- name: finish_turn(id, state, reason, generation)!
update turns set state = :state, ended = store_now(), reason = :reason, generation = :generation
 where id = :id and state = 'running'

-- name: next_generation(session_id)$
update sessions set generation = generation + 1 where id = :session_id returning generation

-- name: move_running_turn(parent, child)!
update turns set session_id = :child where session_id = :parent and state = 'running'
