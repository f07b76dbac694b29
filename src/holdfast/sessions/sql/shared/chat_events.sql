-- name: put_chat_room(account, chat, thread, is_direct, title)$
-- The room's id. A title that the platform did not send along leaves the last one.
insert into chat_rooms (account, chat, thread, is_direct, title, created)
values (:account, :chat, :thread, :is_direct, :title, store_now())
on conflict (account, chat, thread) do update
   set is_direct = excluded.is_direct,
       title = case when excluded.title = '' then chat_rooms.title else excluded.title end
returning id

-- name: get_chat_room(id)^
select id, account, chat, thread, is_direct, title, session_id from chat_rooms where id = :id

-- name: chat_rooms_of_session(session_id)
select id, account, chat, thread, is_direct, title, session_id from chat_rooms where session_id = :session_id order by id

-- name: chat_rooms_of_account(account)
select id, account, chat, thread, is_direct, title, session_id from chat_rooms where account = :account order by id

-- name: assign_chat_room(id, session_id)!
update chat_rooms set session_id = :session_id where id = :id

-- name: free_chat_rooms(root)!
update chat_rooms set session_id = null where session_id in (select id from sessions where root = :root)

-- name: put_chat_event(account, chat, event_id, key, room_id, kind, sender, message_id, event, sent)$
insert into chat_events (account, chat, event_id, key, room_id, kind, sender, message_id, event, sent, received)
values (:account, :chat, :event_id, :key, :room_id, :kind, :sender, :message_id, :event, :sent, store_now())
on conflict (account, chat, event_id) do nothing
returning id

-- name: set_chat_cursor(account, name, value)!
insert into chat_cursors (account, name, value) values (:account, :name, :value)
on conflict (account, name) do update set value = excluded.value

-- name: chat_cursors(account)
select name, value from chat_cursors where account = :account order by name

-- name: new_chat_events(account, limit)
-- The first of each room, then the second of each, and so on.
select id, key, room_id, event_id, kind, sender, message_id, event, sent, received, state, note
  from (select e.*, row_number() over (partition by room_id order by id) as number
          from chat_events e where account = :account and state = 'new') waiting
 order by number, id limit :limit

-- name: get_chat_event(id)^
select id, key, room_id, event_id, kind, sender, message_id, event, sent, received, state, note
  from chat_events where id = :id

-- name: joined_chat_events(id)
select id, key, room_id, event_id, kind, sender, message_id, event, sent, received, state, note
  from chat_events where joined_to = :id order by id

-- name: join_chat_event(id, to)!
update chat_events set state = 'joined', joined_to = :to where id = :id and state = 'new'

-- name: settle_chat_event(id, state, note, session_id)!
update chat_events set state = :state, note = :note, session_id = :session_id where id = :id and state = 'new'

-- name: settle_joined_chat_events(id, session_id)!
update chat_events set session_id = :session_id where joined_to = :id

-- name: chat_conversations(room_id)
-- The conversations that went on in a room, the last one first.
select e.session_id from chat_events e join sessions s on s.id = e.session_id
 where e.room_id = :room_id group by e.session_id order by max(e.id) desc

-- name: earlier_chat_events(room_id, before, note, limit)
-- What was refused for this reason, since the last message of the room that was not.
select id, key, room_id, event_id, kind, sender, message_id, event, sent, received, state, note
  from chat_events
 where room_id = :room_id and id < :before and state = 'refused' and note = :note and event <> '{}'
   and id > coalesce((select max(id) from chat_events
                       where room_id = :room_id and id < :before and state in ('accepted', 'joined')), 0)
 order by id desc limit :limit

-- name: erase_earlier_chat_events(room_id, before, note, keep)!
-- A group's words that nobody addressed to the bot are not kept for longer than they are needed.
update chat_events set event = '{}'
 where room_id = :room_id and state = 'refused' and note = :note and event <> '{}'
   and id < (select min(id) from (select id from chat_events
                                   where room_id = :room_id and id <= :before and state = 'refused' and note = :note
                                     and event <> '{}'
                                   order by id desc limit :keep) kept)

-- name: chat_event_counts(account)
select state, count(*) from chat_events where account = :account group by state order by state

-- name: accepted_chat_events(account, sender, span_us)$
select count(*) from chat_events
 where account = :account and sender = :sender and received > store_now() - :span_us
   and (state = 'accepted' or (state = 'done' and note = '/retry'))

-- name: last_accepted_chat_event(room_id)$
select max(sent) from chat_events where room_id = :room_id and state = 'accepted'

-- name: refused_chat_events(account, limit)
select id, key, room_id, event_id, kind, sender, message_id, event, sent, received, state, note
  from chat_events where account = :account and state in ('refused', 'expired') order by id desc limit :limit

-- name: erase_chat_events(root)!
-- The platform's ids stay, so that none of them is answered again.
update chat_events set event = '{}', note = '', sender = '', session_id = null
 where session_id in (select id from sessions where root = :root)

-- name: chat_place(id)^
-- A room, and who was let in there last.
select r.id, r.account, r.chat, r.thread, r.is_direct, r.title, e.sender, p.name, e.event
  from chat_rooms r
  left join chat_events e on e.id = (select max(l.id) from chat_events l
                                      where l.room_id = r.id and l.state = 'accepted' and l.sender <> '')
  left join chat_people p on p.account = r.account and p.person = e.sender
 where r.id = :id

-- name: chat_waiting()$
-- What waits for a person, on all accounts.
select (select count(*) from chat_posts where state = 'failed')
     + (select count(*) from chat_pairings where expires > store_now())

-- name: chat_accounts()
select account from chat_cursors union select account from chat_rooms
 union select account from chat_people union select account from chat_pairings
 order by account
