-- name: add_forgetting(key, kind, turns, request)!
insert into forgettings (key, kind, turns, request, requested)
values (:key, :kind, :turns, :request, store_now())
on conflict (key) do nothing

-- name: forgetting_id(key)$
select id from forgettings where key = :key

-- name: mark_turn_forgotten(turn_id, forgetting_id)!
insert into forgotten_turns (turn_id, forgetting_id)
select id, :forgetting_id from turns where id = :turn_id
on conflict (turn_id) do update set forgetting_id = excluded.forgetting_id

-- name: add_forgetting_task(forgetting_id, provider)!
insert into forgetting_tasks (forgetting_id, provider, due) values (:forgetting_id, :provider, store_now())
on conflict (forgetting_id, provider) do nothing

-- name: providers_told(forgetting_id)
-- The providers that were given one of the turns, or may have been.
select distinct o.provider
  from forgotten_turns f join outbox o on o.turn_id = f.turn_id
 where f.forgetting_id = :forgetting_id and o.state in ('claimed', 'delivered')

-- name: drop_forgotten_deliveries(forgetting_id)!
-- All but those that another process is delivering right now.
update outbox set state = 'dropped', lease = null, settled = store_now()
 where turn_id in (select turn_id from forgotten_turns where forgetting_id = :forgetting_id)
   and (state in ('owed', 'set_aside') or (state = 'claimed' and due <= store_now()))

-- name: drop_forgotten_copies(forgetting_id)!
update turns set provider_messages = null
 where id in (select turn_id from forgotten_turns where forgetting_id = :forgetting_id)
   and provider_messages is not null
   and not exists (select 1 from outbox o where o.turn_id = turns.id and o.state = 'claimed')

-- name: forgotten_under_way(forgetting_id, provider)$
-- Whether a process is delivering one of the turns to the provider.
select exists (select 1 from forgotten_turns f
                 join outbox o on o.turn_id = f.turn_id and o.provider = :provider and o.state = 'claimed'
                where f.forgetting_id = :forgetting_id)

-- name: due_forgetting(provider)^
select f.id, f.key, f.request, t.attempts
  from forgetting_tasks t join forgettings f on f.id = t.forgetting_id
 where t.provider = :provider and t.state = 'owed' and t.due <= store_now()
 order by f.id limit 1

-- name: next_forgetting(provider)$
select min(due) from forgetting_tasks where provider = :provider and state = 'owed'

-- name: defer_forgetting(forgetting_id, provider, delay_us, counted, note)!
update forgetting_tasks set attempts = attempts + :counted, due = store_now() + :delay_us, note = :note
 where forgetting_id = :forgetting_id and provider = :provider and state = 'owed'

-- name: settle_forgetting(forgetting_id, provider, state, forgotten, note)!
update forgetting_tasks
   set state = :state, attempts = attempts + 1, forgotten = :forgotten, note = :note, settled = store_now()
 where forgetting_id = :forgetting_id and provider = :provider and state = 'owed'

-- name: retry_forgetting(forgetting_id)!
update forgetting_tasks set state = 'owed', attempts = 0, due = store_now(), settled = null
 where forgetting_id = :forgetting_id and state = 'failed'

-- name: drop_forgetting_request(forgetting_id)!
-- Once nothing is left to do, no word of what was forgotten is kept.
update forgettings set request = null
 where id = :forgetting_id and request is not null
   and not exists (select 1 from forgetting_tasks t
                    where t.forgetting_id = forgettings.id and t.state in ('owed', 'failed'))

-- name: list_forgettings(before, limit)
select f.id, f.kind, f.turns, f.requested, t.provider, t.state, t.forgotten, t.note
  from (select id, kind, turns, requested from forgettings where id < :before order by id desc limit :limit) f
  left join forgetting_tasks t on t.forgetting_id = f.id
 order by f.id desc, t.provider

-- name: last_forgetting()$
select coalesce(max(id), 0) from forgettings

-- name: turns_completed_between(after, before, later_than, limit)
-- In pages, by their ids.
select t.session_id, t.id from turns t
 where t.state = 'completed' and t.ended >= :after and t.ended < :before and t.id > :later_than
 order by t.id limit :limit

-- name: completed_turns_of(root)
select t.session_id, t.id from sessions s join turns t on t.session_id = s.id
 where s.root = :root and t.state = 'completed' order by t.id

-- name: completed_turn(id)^
select session_id, id from turns where id = :id and state = 'completed'

-- name: turns_begun_after(session_id, before)
-- The completed turns whose first message here stands at a place or after it, and whether each is forgotten.
select t.session_id, t.id, f.turn_id is not null
  from turns t left join forgotten_turns f on f.turn_id = t.id
 where t.session_id = :session_id and t.state = 'completed'
   and (select min(m.seq) from messages m
         where m.session_id = :session_id and m.turn_id = t.id) >= :before
 order by t.started, t.id

-- name: copied_messages(session_id)$
-- How many messages a branch has from the session that it left: it begins with them.
select count(*) from messages where session_id = :session_id and carried = 1

-- name: unselected_turns(session_id)
-- The completed turns of a session that were not forgotten.
select t.id from turns t
 where t.session_id = :session_id and t.state = 'completed'
   and not exists (select 1 from forgotten_turns f where f.turn_id = t.id)
