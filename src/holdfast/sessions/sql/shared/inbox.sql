-- name: put_message(session_id, mode, message, addressed_to, key)^
insert into inbox (session_id, mode, message, addressed_to, key, created)
values (:session_id, :mode, :message, :addressed_to, :key, store_now())
on conflict (key) do nothing
returning id, session_id, mode, message, state, turn_id, addressed_to, key, created

-- name: inbox_by_key(key)^
select id, session_id, mode, message, state, turn_id, addressed_to, key, created from inbox where key = :key

-- name: get_inbox_message(id)^
select id, session_id, mode, message, state, turn_id, addressed_to, key, created from inbox where id = :id

-- name: waiting_messages(session_id, limit)
-- In the order in which they run: a message that interrupted a turn is the next one, before those that only wait.
select id, session_id, mode, message, state, turn_id, addressed_to, key, created
  from inbox where session_id = :session_id and state = 'waiting'
 order by case when mode = 'interrupt' and addressed_to is not null then 0 else 1 end, id
 limit :limit

-- name: count_waiting_messages(session_id)$
select count(*) from inbox where session_id = :session_id and state = 'waiting'

-- name: sessions_with_waiting_messages()
select distinct session_id from inbox where state = 'waiting' order by session_id

-- name: acknowledge_message(id, turn_id)^
-- Only a running turn of the message's own session can take it, and only once.
update inbox set state = 'taken', turn_id = :turn_id
 where id = :id and state = 'waiting'
   and session_id = (select session_id from turns where id = :turn_id and state = 'running')
returning id, session_id, mode, message, state, turn_id, addressed_to, key, created

-- name: withdraw_message(id)!
update inbox set state = 'withdrawn' where id = :id and state = 'waiting'

-- name: replace_message(id, message, mode, addressed_to)^
update inbox set message = :message, mode = :mode, addressed_to = :addressed_to
 where id = :id and state = 'waiting'
returning id, session_id, mode, message, state, turn_id, addressed_to, key, created

-- name: move_waiting_messages(parent, child)!
update inbox set session_id = :child where session_id = :parent and state = 'waiting'
