-- name: add_user(id, name, name_key, role, daily_turns, daily_tokens, storage_limit)!
insert into users (id, name, name_key, role, scope, daily_turns, daily_tokens, storage_limit, created)
values (:id, :name, :name_key, :role, 'user/' || :id, :daily_turns, :daily_tokens, :storage_limit, store_now())
on conflict do nothing

-- name: get_user(id)^
select id, name, role, scope, daily_turns, daily_tokens, created, disabled, storage_limit, storage_used
  from users where id = :id

-- name: lock_user(id)^
-- The account, which nobody else changes until the end of the transaction.
update users set created = created where id = :id
returning id, name, role, scope, daily_turns, daily_tokens, created, disabled, storage_limit, storage_used

-- name: user_by_name(name_key)^
select id, name, role, scope, daily_turns, daily_tokens, created, disabled, storage_limit, storage_used
  from users where name_key = :name_key

-- name: user_of_scope(scope)^
select id, name, role, scope, daily_turns, daily_tokens, created, disabled, storage_limit, storage_used
  from users where scope = :scope

-- name: list_users()
select id, name, role, scope, daily_turns, daily_tokens, created, disabled, storage_limit, storage_used
  from users order by name_key

-- name: change_user(id, name, name_key, role, daily_turns, daily_tokens, storage_limit)!
update users set name = :name, name_key = :name_key, role = :role, daily_turns = :daily_turns,
                 daily_tokens = :daily_tokens, storage_limit = :storage_limit
 where id = :id and not exists (select 1 from users o where o.name_key = :name_key and o.id <> :id)

-- name: disable_user(id)!
update users set disabled = store_now() where id = :id and disabled is null

-- name: disabled_scopes()
select scope from users where disabled is not null

-- name: enable_user(id)!
update users set disabled = null where id = :id and disabled is not null

-- name: remove_user(id)!
delete from users where id = :id

-- name: remove_user_tokens(user_id)!
delete from user_tokens where user_id = :user_id

-- name: remove_user_identities(user_id)!
delete from user_identities where user_id = :user_id

-- name: conversations_of_scope(scope)$
select count(*) from sessions where scope = :scope and listed = 1

-- name: roots_of_scope(scope)
select distinct root from sessions where scope = :scope and listed = 1 order by root

-- name: remove_schedules_of_scope(scope)!
update schedules set state = 'removed', next_due = null where scope = :scope and state <> 'removed'

-- name: get_password_hash(id)$
select password_hash from users where id = :id

-- name: set_password_hash(id, password_hash)!
update users set password_hash = :password_hash where id = :id

-- name: add_user_token(id, user_id, label, kind, digest, ttl_us)!
insert into user_tokens (id, user_id, label, kind, digest, created, expires)
values (:id, :user_id, :label, :kind, :digest, store_now(), store_now() + cast(:ttl_us as bigint))

-- name: get_user_token(id)^
select id, user_id, label, kind, created, last_used, expires, revoked from user_tokens where id = :id

-- name: list_user_tokens(user_id)
select id, user_id, label, kind, created, last_used, expires, revoked from user_tokens
 where user_id = :user_id order by created, id

-- name: user_of_token(digest)^
-- Whose token it is, with the token's id and for how long it has not been used; only one that counts now.
select u.id, u.name, u.role, u.scope, u.daily_turns, u.daily_tokens, u.created, u.disabled,
       u.storage_limit, u.storage_used,
       t.id, t.kind, store_now() - coalesce(t.last_used, 0)
  from user_tokens t join users u on u.id = t.user_id
 where t.digest = :digest and t.revoked is null and u.disabled is null
   and (t.expires is null or t.expires > store_now())

-- name: note_token_used(id)!
update user_tokens set last_used = store_now() where id = :id

-- name: revoke_user_token(id)!
update user_tokens set revoked = store_now() where id = :id and revoked is null

-- name: forget_old_tokens(user_id, keep_us)!
-- What an account was let in with goes a while after it counts no more.
delete from user_tokens where user_id = :user_id
   and (revoked < store_now() - :keep_us or expires < store_now() - :keep_us)

-- name: user_of_identity(issuer, subject)^
select u.id, u.name, u.role, u.scope, u.daily_turns, u.daily_tokens, u.created, u.disabled,
       u.storage_limit, u.storage_used
  from user_identities i join users u on u.id = i.user_id where i.issuer = :issuer and i.subject = :subject

-- name: link_identity(issuer, subject, user_id)!
insert into user_identities (issuer, subject, user_id, created) values (:issuer, :subject, :user_id, store_now())
on conflict do nothing

-- name: unlink_identity(issuer, subject)!
delete from user_identities where issuer = :issuer and subject = :subject

-- name: identities_of(user_id)
select issuer, subject, user_id, created from user_identities where user_id = :user_id order by issuer, subject

-- name: add_invitation(digest, role, ttl_us)!
insert into invitations (digest, role, created, expires) values (:digest, :role, store_now(), store_now() + :ttl_us)

-- name: use_invitation(digest, used_by)!
update invitations set used_by = :used_by where digest = :digest and used_by is null and expires > store_now()

-- name: get_invitation(digest)^
select role, created, expires, used_by from invitations where digest = :digest

-- name: forget_old_invitations(keep_us)!
delete from invitations where expires < store_now() - :keep_us

-- name: add_audit_entry(actor, action, target, detail)!
insert into audit_log (at, actor, action, target, detail) values (store_now(), :actor, :action, :target, :detail)

-- name: list_audit_entries(before, target, limit)
select id, at, actor, action, target, detail from audit_log
 where id < :before and (cast(:target as text) is null or target = :target or actor = :target)
 order by id desc limit :limit

-- name: forget_old_audit_entries(actor, most)!
-- Those of one actor alone: nobody's entries take another's out.
delete from audit_log where actor = :actor and id <= (
    select id from audit_log where actor = :actor order by id desc limit 1 offset :most)

-- name: has_users()^
select 1 from users limit 1

-- name: has_passwords()^
select 1 from users where password_hash is not null and disabled is null limit 1

-- name: storage_measured_lately(scope, within_us)$
-- What the account used when it was measured; nothing where that is longer ago.
select storage_used from users where scope = :scope and storage_measured > store_now() - :within_us

-- name: note_storage(scope, bytes)!
update users set storage_used = :bytes, storage_measured = store_now() where scope = :scope

-- name: measure_storage_again(root)!
-- A conversation goes: its account is measured at the next look.
update users set storage_measured = 0
 where scope = (select s.scope from sessions s where s.id = :root) and storage_measured <> 0

-- name: scopes_to_measure(every_us)
-- Accounts that were not measured for a while, and in whose conversations something has happened since.
select u.scope from users u
 where u.storage_measured <= store_now() - :every_us
   and (u.storage_measured = 0
        or exists (select 1 from sessions s
                    where s.scope = u.scope and s.last_active >= u.storage_measured - :every_us)
        or exists (select 1 from sessions s join turns t on t.session_id = s.id and t.state = 'running'
                    where s.scope = u.scope))
 order by u.scope
