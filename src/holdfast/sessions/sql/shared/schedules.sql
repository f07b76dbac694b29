-- name: store_time()$
select store_now()

-- name: add_schedule(scope, session_id, own_session, text, rule, zone, missed, next_due, room, created_by, created)$
insert into schedules
       (scope, session_id, own_session, text, rule, zone, missed, next_due, room, created_by, created)
values (:scope, :session_id, :own_session, :text, :rule, :zone, :missed, :next_due, :room, :created_by, :created)
returning id

-- name: get_schedule(id)^
select id, scope, session_id, own_session, text, rule, zone, missed, state, next_due, room, created_by, created
  from schedules where id = :id and state <> 'removed'

-- name: list_schedules(scope)
-- Those of one scope, or (null) of all.
select id, scope, session_id, own_session, text, rule, zone, missed, state, next_due, room, created_by, created
  from schedules where state <> 'removed' and scope = coalesce(cast(:scope as text), scope) order by id

-- name: due_schedule()^
select id, scope, session_id, own_session, text, rule, zone, missed, state, next_due, room, created_by, created
  from schedules where state = 'active' and next_due <= store_now() order by next_due, id limit 1

-- name: pause_schedule(id)!
update schedules set state = 'paused' where id = :id and state = 'active'

-- name: skip_due_runs(schedule_id)!
update schedule_runs set state = 'skipped', ended = store_now() where schedule_id = :schedule_id and state = 'due'

-- name: resume_schedule(id, next_due)!
update schedules set state = 'active', next_due = :next_due where id = :id and state = 'paused'

-- name: remove_schedule(id)!
update schedules set state = 'removed', next_due = null where id = :id and state <> 'removed'

-- name: forget_removed_runs()!
-- Of what is removed only the runs stay whose message is sent, or that a chat is still to be told of.
delete from schedule_runs
 where schedule_id in (select id from schedules where state = 'removed')
   and (state <> 'running' or inbox_id is null) and delivery <> 'due'

-- name: forget_removed_schedules()!
delete from schedules
 where state = 'removed' and not exists (select 1 from schedule_runs r where r.schedule_id = schedules.id)

-- name: move_schedule(id, seen, next_due)!
-- One process moves a schedule on from a time at which it was due.
update schedules set next_due = :next_due where id = :id and state = 'active' and next_due = :seen

-- name: add_run(schedule_id, due, state, missed)!
insert into schedule_runs (schedule_id, due, state, missed, room, created, ended)
select id, :due, cast(:state as text), :missed, room, store_now(),
       case when cast(:state as text) = 'skipped' then store_now() end
  from schedules where id = :schedule_id and state <> 'removed'
on conflict (schedule_id, due) do nothing

-- name: forget_old_runs(schedule_id, keep)!
delete from schedule_runs
 where schedule_id = :schedule_id and state in ('done', 'failed', 'skipped') and delivery <> 'due'
   and id not in (select id from schedule_runs where schedule_id = :schedule_id order by id desc limit :keep)

-- name: claimable_run()^
-- The oldest run whose message is not sent: due, or claimed by a process that has not sent it in time. The runs of
-- a schedule are sent in order.
select r.id
  from schedule_runs r
 where r.state in ('due', 'running') and r.inbox_id is null
   and ((r.state = 'due' and r.due <= store_now()) or (r.state = 'running' and r.claimed_until <= store_now()))
   and not exists (select 1 from schedule_runs e
                    where e.schedule_id = r.schedule_id and e.due < r.due
                      and e.state in ('due', 'running') and e.inbox_id is null)
 order by r.due, r.id limit 1

-- name: claim_scheduled_run(id, lease_us)!
update schedule_runs
   set state = 'running', claimed_until = store_now() + :lease_us, started = coalesce(started, store_now())
 where id = :id and inbox_id is null
   and (state = 'due' or (state = 'running' and claimed_until <= store_now()))

-- name: get_run(id)^
select id, schedule_id, due, state, missed, inbox_id, turn_id, room, delivery, error, delivery_error,
       created, started, ended
  from schedule_runs where id = :id

-- name: schedule_of_run(id)^
select s.id, s.scope, s.session_id, s.own_session, s.text, s.rule, s.zone, s.missed, s.state, s.next_due, s.room,
       s.created_by, s.created
  from schedule_runs r join schedules s on s.id = r.schedule_id where r.id = :id

-- name: runs_of_schedule(schedule_id, limit)
select id, schedule_id, due, state, missed, inbox_id, turn_id, room, delivery, error, delivery_error,
       created, started, ended
  from schedule_runs where schedule_id = :schedule_id order by due desc, id desc limit :limit

-- name: mark_run_sent(id, inbox_id)!
update schedule_runs set inbox_id = :inbox_id where id = :id and state = 'running' and inbox_id is null

-- name: fail_run(id, error)!
update schedule_runs
   set state = 'failed', error = :error, ended = store_now(),
       delivery = case when room is null then 'none' else 'due' end
 where id = :id and state = 'running' and inbox_id is null

-- name: schedule_work()^
-- The store's time, when a schedule and an unsent run are due next, how many runs are under way, and of how many
-- the turn has ended. Each condition names both open states, as the index does: SQLite infers nothing.
select store_now(),
       (select min(next_due) from schedules where state = 'active'),
       (select min(case when state = 'due' then due else claimed_until end) from schedule_runs
         where state in ('due', 'running') and inbox_id is null),
       (select count(*) from schedule_runs where state in ('due', 'running') and state = 'running'),
       (select count(*) from schedule_runs r
         where r.state in ('due', 'running') and r.state = 'running' and r.inbox_id is not null
           and not exists (select 1 from inbox i left join turns t on t.id = i.turn_id
                            where i.id = r.inbox_id and (i.state = 'waiting' or t.state = 'running')))

-- name: settle_runs()!
-- A run ends with the turn that took its message. A message that was withdrawn, or deleted with its conversation,
-- has no turn.
update schedule_runs
   set turn_id = (select i.turn_id from inbox i where i.id = schedule_runs.inbox_id),
       state = case (select t.state from inbox i join turns t on t.id = i.turn_id
                      where i.id = schedule_runs.inbox_id)
                    when 'completed' then 'done' else 'failed' end,
       error = coalesce(
           (select case t.state when 'completed' then '' else coalesce(t.reason, t.state) end
              from inbox i join turns t on t.id = i.turn_id where i.id = schedule_runs.inbox_id),
           (select 'its message was ' || i.state from inbox i where i.id = schedule_runs.inbox_id),
           'its conversation was deleted'),
       ended = store_now(),
       delivery = case when room is null then 'none' else 'due' end
 where state in ('due', 'running') and state = 'running' and inbox_id is not null
   and not exists (select 1 from inbox i left join turns t on t.id = i.turn_id
                    where i.id = schedule_runs.inbox_id and (i.state = 'waiting' or t.state = 'running'))

-- name: runs_to_deliver(limit)
select id, schedule_id, due, state, missed, inbox_id, turn_id, room, delivery, error, delivery_error,
       created, started, ended
  from schedule_runs where delivery = 'due' order by id limit :limit

-- name: settle_run_delivery(id, delivery, error)!
update schedule_runs set delivery = :delivery, delivery_error = :error where id = :id and delivery = 'due'
