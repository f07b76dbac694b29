-- name: post_turn_end(turn_id, session_id, body)!
-- The answer goes where the message came from that opened the turn, if it came from a chat; what a background
-- process says goes where its conversation lives. A preview becomes the answer.
insert into chat_posts (key, room_id, kind, reply_to, session_id, turn_id, body, state, due, created)
select 'answer:' || :turn_id, room_id, 'answer', message_id, :session_id, :turn_id, :body, 'due', store_now(),
       store_now()
  from (select i.id as inbox_id, e.room_id, e.message_id
          from inbox i join chat_events e on e.key = i.key
         where i.turn_id = :turn_id
         union all
        select i.id, r.id, ''
          from inbox i join sessions s on s.id = i.session_id join chat_rooms r on r.session_id = s.root
         where i.turn_id = :turn_id and substr(i.key, 1, 11) = 'background:') route
 where true
 order by inbox_id limit 1
on conflict (key) do update set body = excluded.body, state = 'due', due = excluded.due
   where chat_posts.state = 'open'

-- name: open_chat_post(turn_id, session_id)^
insert into chat_posts (key, room_id, kind, reply_to, session_id, turn_id, body, state, due, created)
select 'answer:' || t.id, e.room_id, 'answer', e.message_id, :session_id, t.id, '{}', 'open', store_now(), store_now()
  from turns t join inbox i on i.turn_id = t.id join chat_events e on e.key = i.key
 where t.id = :turn_id and t.state = 'running'
 order by i.id limit 1
on conflict (key) do nothing
returning id, key, room_id, kind, reply_to, session_id, turn_id, body, state, attempts, due, error, created

-- name: is_chat_post_overtaken(id, room_id)$
-- Whether something was shown in the room after this post began.
select exists (select 1 from chat_posts where room_id = :room_id and id > :id and state = 'sent')

-- name: chat_room_of_turn(turn_id)^
select r.id, r.account, r.chat, r.thread, r.is_direct, r.title, r.session_id
  from inbox i join chat_events e on e.key = i.key join chat_rooms r on r.id = e.room_id
 where i.turn_id = :turn_id order by i.id limit 1

-- name: post_ask(key, turn_id, session_id, body)!
-- A question that is asked again after a restart keeps its message and buttons.
insert into chat_posts (key, room_id, kind, reply_to, session_id, turn_id, body, state, due, created)
select :key, e.room_id, 'ask', e.message_id, :session_id, :turn_id, :body, 'due', store_now(), store_now()
  from inbox i join chat_events e on e.key = i.key
 where i.turn_id = :turn_id
 order by i.id limit 1
on conflict (key) do update set body = excluded.body

-- name: put_chat_post(key, room_id, kind, reply_to, session_id, turn_id, body)!
insert into chat_posts (key, room_id, kind, reply_to, session_id, turn_id, body, state, due, created)
values (:key, :room_id, :kind, :reply_to, :session_id, :turn_id, :body, 'due', store_now(), store_now())
on conflict (key) do nothing

-- name: get_chat_post(id)^
select id, key, room_id, kind, reply_to, session_id, turn_id, body, state, attempts, due, error, created
  from chat_posts where id = :id

-- name: chat_post_by_key(key)^
select id, key, room_id, kind, reply_to, session_id, turn_id, body, state, attempts, due, error, created
  from chat_posts where key = :key

-- name: due_chat_posts(account)
-- In each room the oldest, and only when its time has come: what is said first is shown first. A post that was made
-- later than now shows that the time was set back: it does not wait until then.
select p.id, p.key, p.room_id, p.kind, p.reply_to, p.session_id, p.turn_id, p.body, p.state, p.attempts, p.due,
       p.error, p.created
  from chat_posts p join chat_rooms r on r.id = p.room_id and r.account = :account
 where p.state = 'due' and (p.due <= store_now() or p.created > store_now())
   and not exists (select 1 from chat_posts q where q.room_id = p.room_id and q.state = 'due' and q.id < p.id)
 order by p.id

-- name: is_chat_post_due(room_id)$
select exists (select 1 from chat_posts where room_id = :room_id and state = 'due')

-- name: failed_chat_posts(account)
select p.id, p.key, p.room_id, p.kind, p.reply_to, p.session_id, p.turn_id, p.body, p.state, p.attempts, p.due,
       p.error, p.created
  from chat_rooms r join chat_posts p on p.room_id = r.id and p.state = 'failed'
 where r.account = :account order by p.id

-- name: chat_post_counts(account)
select p.state, count(*) from chat_rooms r join chat_posts p on p.room_id = r.id
 where r.account = :account group by p.state order by p.state

-- name: put_chat_part(post_id, number, body)!
insert into chat_parts (post_id, number, body) values (:post_id, :number, :body)
on conflict (post_id, number) do update set body = excluded.body

-- name: chat_parts(post_id)
select number, body, state, message_id, tried from chat_parts where post_id = :post_id order by number

-- name: set_chat_part(post_id, number, old, new, message_id)!
update chat_parts
   set state = :new, message_id = :message_id, tried = case when :new = 'sending' then store_now() else tried end
 where post_id = :post_id and number = :number and state = :old

-- name: defer_chat_post(id, delay_us, counted, error)!
update chat_posts set due = store_now() + :delay_us, attempts = attempts + :counted, error = :error
 where id = :id and state = 'due'

-- name: settle_chat_post(id, state, error)!
update chat_posts
   set state = :state, error = :error, settled = case when :state = 'sent' then store_now() else null end
 where id = :id and state = 'due'

-- name: retry_chat_post(id)!
update chat_posts set state = 'due', due = store_now(), attempts = 0 where id = :id and state = 'failed'

-- name: drop_chat_post(id)!
update chat_posts set state = 'dropped', settled = store_now() where id = :id and state in ('failed', 'due')

-- name: delete_chat_posts(root)!
delete from chat_posts where session_id in (select id from sessions where root = :root)
