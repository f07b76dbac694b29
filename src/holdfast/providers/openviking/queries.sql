-- name: add_turn(key, session, turn, payload)!
insert into turns (key, session, turn, state, payload) values (:key, :session, :turn, 'owed', :payload)
    on conflict (key) do nothing;

-- name: unsent(keys)
select key, turn, state, payload from turns
 where state in ('owed', 'sending') and stretch is null and key in (select value from json_each(:keys))
 order by place;

-- name: mark_sending(keys)!
update turns set state = 'sending'
 where state = 'owed' and key in (select value from json_each(:keys));

-- name: mark_sent(keys)!
update turns set state = 'sent'
 where state in ('owed', 'sending') and stretch is null and key in (select value from json_each(:keys));

-- name: forget_unsent(keys)!
delete from turns where state = 'owed' and key in (select value from json_each(:keys));

-- name: sessions_to_commit()
select session from turns where state = 'sent'
 union
select session from stretches where state = 'committing'
 order by 1;

-- name: count_sent(session)$
select count(*) from turns where session = :session and state = 'sent';

-- name: committing_batch(session)$
select id from stretches where session = :session and state = 'committing';

-- name: begin_batch(session, attempt)!
insert into stretches (session, state, attempt) values (:session, 'committing', :attempt)
    on conflict do nothing;

-- name: gather(batch, session)!
update turns set state = 'committed', stretch = :batch where session = :session and state = 'sent';

-- name: gather_resent(batch, old)!
update turns set state = 'committed', stretch = :batch where stretch = :old and state = 'sending';

-- name: mark_extracting(task, archive, batch)!
update stretches set state = 'extracting', task = :task, archive = :archive, error = ''
 where id = :batch and state = 'committing';

-- name: batches()
select id, session, state, task, archive, attempt, error from stretches order by id;

-- name: batch_by_id(batch)
select id, session, state, task, archive, attempt, error from stretches where id = :batch;

-- name: turns_of_batch(batch)
select key, turn, payload from turns where stretch = :batch order by place;

-- name: finish_turns(batch)!
update turns set state = 'done', payload = null, stretch = null where stretch = :batch;

-- name: drop_batch(batch)!
delete from stretches where id = :batch;

-- name: mark_resending(error, batch)!
update stretches set state = 'resending', error = :error where id = :batch;

-- name: resend_turns(batch)!
update turns set state = 'sending' where stretch = :batch and state = 'committed';

-- name: hold(holder, until, batch, dead, now)!
update stretches set holder = :holder, held_until = :until
 where id = :batch and (holder in (0, :holder, :dead) or held_until < :now);

-- name: holder_of(batch)$
select holder from stretches where id = :batch;

-- name: release(holder)!
update stretches set holder = 0, held_until = 0 where holder = :holder;

-- name: counts()
select coalesce(sum(state in ('owed', 'sending')), 0), coalesce(sum(state = 'sent'), 0),
       coalesce(sum(state = 'committed'), 0), coalesce(sum(state = 'done'), 0)
  from turns;

-- name: forget_turns_of(session)!
delete from turns where session = :session;

-- name: forget_batches_of(session)!
delete from stretches where session = :session;
