-- name: acquire_lease(name, holder, ttl_us)^
-- Free, released or run out: the next holder gets the next fencing token.
insert into leases (name, holder, token, expires) values (:name, :holder, 1, store_now() + :ttl_us)
on conflict (name) do update
   set holder = excluded.holder, token = leases.token + 1, expires = store_now() + :ttl_us
 where leases.holder is null or leases.expires <= store_now()
returning name, holder, token, expires

-- name: renew_lease(name, holder, token, ttl_us)^
update leases set expires = store_now() + :ttl_us
 where name = :name and holder = :holder and token = :token and expires > store_now()
returning name, holder, token, expires

-- name: take_up_lease(name, holder, token, ttl_us)!
-- It ran out and is untouched: its holder goes on with the next fencing token.
update leases set token = token + 1, expires = store_now() + :ttl_us
 where name = :name and holder = :holder and token = :token

-- name: release_lease(name, holder, token)!
-- The row stays, so that tokens never start over.
update leases set holder = null where name = :name and holder = :holder and token = :token

-- name: current_lease(name)^
select name, holder, token, expires from leases
 where name = :name and holder is not null and expires > store_now()

-- name: lease_holders(first, behind)
-- Who holds a lease whose name is in this range.
select distinct holder from leases
 where name >= :first and name < :behind and holder is not null and expires > store_now()

-- name: last_lease(name)^
-- In force or run out, but not let go.
select name, holder, token, expires from leases where name = :name and holder is not null

-- name: was_let_go(name)$
select exists (select 1 from leases where name = :name and holder is null)

-- name: is_untouched_lease(name, holder, token)$
select exists (select 1 from leases where name = :name and holder = :holder and token = :token)
