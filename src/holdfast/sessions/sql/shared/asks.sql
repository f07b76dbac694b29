-- name: put_ask(id, turn_id, lease, token, event)!
insert into asks (id, turn_id, lease, token, event, created)
values (:id, :turn_id, :lease, :token, :event, store_now())

-- name: answer_ask(id, lease, answer)!
-- The first answer counts, while the turn waits for it and its process holds the conversation.
update asks set state = 'answered', answer = :answer
 where id = :id and lease = :lease and state = 'open'
   and exists (select 1 from turns t where t.id = asks.turn_id and t.state = 'running')
   and exists (select 1 from leases l where l.name = asks.lease and l.token = asks.token
                  and l.holder is not null and l.expires > store_now())

-- name: move_asks(lease, old, new)!
-- The asking process has taken its lease up again.
update asks set token = :new where lease = :lease and token = :old

-- name: keep_answer(id, message, key)!
insert into inbox (session_id, mode, message, state, turn_id, key, created)
select t.session_id, 'queue', :message, 'taken', t.id, :key, store_now()
  from asks a join turns t on t.id = a.turn_id where a.id = :id

-- name: close_ask(id)!
update asks set state = 'closed' where id = :id and state = 'open'

-- name: withhold_asks(turn_id)!
-- No lease has this token: nobody can answer them any more, and they stay open on record.
update asks set token = -1 where turn_id = :turn_id and state = 'open'

-- name: get_ask(id)^
select id, turn_id, lease, event, state, answer, created from asks where id = :id

-- name: open_asks(session_id)
select a.id, a.turn_id, a.lease, a.event, a.state, a.answer, a.created
  from turns t
  join asks a on a.turn_id = t.id and a.state = 'open'
  join leases l on l.name = a.lease and l.token = a.token and l.holder is not null and l.expires > store_now()
 where t.session_id = :session_id and t.state = 'running'
 order by a.created, a.id

-- name: asks_of_turn(turn_id)
select id, turn_id, lease, event, state, answer, created from asks where turn_id = :turn_id order by created, id

-- name: turns_with_asks_left()
-- Turns that ended while their process could not tidy up behind them.
select distinct a.turn_id from asks a join turns t on t.id = a.turn_id where t.state <> 'running'

-- name: forget_asks(turn_id)
delete from asks where turn_id = :turn_id
returning id, turn_id, lease, event, state, answer, created
