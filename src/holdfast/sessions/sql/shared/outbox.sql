-- name: enqueue_delivery(turn_id, provider)!
-- Only a completed turn is owed to memory, and to each provider once. A forgotten one is not.
insert into outbox (session_id, turn_id, provider, due, created)
select session_id, id, :provider, store_now(), store_now() from turns where id = :turn_id and state = 'completed'
   and not exists (select 1 from forgotten_turns f where f.turn_id = turns.id)
on conflict (turn_id, provider) do nothing

-- name: extend_claim(lease, lease_us)!
update outbox set due = store_now() + :lease_us where lease = :lease and state = 'claimed'

-- name: claims_in_force(provider)
select distinct lease from outbox
 where provider = :provider and state = 'claimed' and lease is not null and due > store_now()

-- name: end_claim(lease)!
-- Its holder is dead: the claim has run out.
update outbox set due = store_now() where lease = :lease and state = 'claimed' and due > store_now()

-- name: settle_claim(id, lease, state)!
-- Only the holder of the lease may end a delivery.
update outbox set state = :state, lease = null, last_error = null, settled = store_now()
 where id = :id and state = 'claimed' and lease = :lease

-- name: return_claim(id, lease, state, delay_us, uncounted, last_error)!
-- Back to owed, or set aside, with the reason.
update outbox set state = :state, lease = null, due = store_now() + :delay_us,
                  attempts = attempts - :uncounted, last_error = coalesce(:last_error, last_error)
 where id = :id and state = 'claimed' and lease = :lease

-- name: get_delivery(id)^
select id, session_id, turn_id, provider, state, attempts, due, lease, last_error, created, settled
  from outbox where id = :id

-- name: deliveries_of_turn(turn_id)
select id, session_id, turn_id, provider, state, attempts, due, lease, last_error, created, settled
  from outbox where turn_id = :turn_id order by id

-- name: list_deliveries(provider, state, after, limit)
select id, session_id, turn_id, provider, state, attempts, due, lease, last_error, created, settled
  from outbox
 where state = :state and id > :after and (provider = :provider or :provider = '')
 order by id limit :limit

-- name: retry_delivery(id)!
update outbox set state = 'owed', attempts = 0, due = store_now() where id = :id and state = 'set_aside'

-- name: drop_delivery(id)!
update outbox set state = 'dropped', settled = store_now() where id = :id and state = 'set_aside'

-- name: rename_provider(expected, name)!
-- What was owed to a provider before it had said its own name. A turn is owed to it once.
update outbox set provider = :name
 where provider = :expected and state in ('owed', 'set_aside')
   and not exists (select 1 from outbox twin where twin.turn_id = outbox.turn_id and twin.provider = :name)

-- name: is_due(provider)$
-- Whether a head may be claimed now.
select exists (select 1 from outbox o
                where o.id in (select min(id) from outbox
                                where provider = :provider and state in ('owed', 'claimed') group by session_id)
                  and o.due <= store_now())

-- name: next_due(provider)$
-- When the earliest head may be claimed.
select min(o.due) from outbox o
 where o.id in (select min(id) from outbox
                 where provider = :provider and state in ('owed', 'claimed') group by session_id)

-- name: last_delivery(provider)$
select coalesce(max(id), 0) from outbox where provider = :provider and state in ('owed', 'claimed')

-- name: open_until(provider, session_id, last)$
-- Whether a delivery up to that one is still open, in one session or (null) in any.
select exists (select 1 from outbox
                where provider = :provider and state in ('owed', 'claimed') and id <= :last
                  and (cast(:session_id as text) is null or session_id = :session_id))

-- name: count_open(provider)^
select count(*), min(created) from outbox where provider = :provider and state in ('owed', 'claimed')

-- name: count_set_aside(provider)$
select count(*) from outbox where provider = :provider and state = 'set_aside'
