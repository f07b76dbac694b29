-- name: put_chat_person(account, person, name, role)!
insert into chat_people (account, person, name, role, added) values (:account, :person, :name, :role, store_now())
on conflict (account, person) do update
   set role = excluded.role, name = case when excluded.name = '' then chat_people.name else excluded.name end

-- name: get_chat_person(account, person)^
select account, person, name, role, added from chat_people where account = :account and person = :person

-- name: chat_people(account)
select account, person, name, role, added from chat_people where account = :account order by added, person

-- name: remove_chat_person(account, person)!
delete from chat_people where account = :account and person = :person

-- name: expire_chat_pairings()!
delete from chat_pairings where expires <= store_now()

-- name: count_chat_pairings(account)$
select count(*) from chat_pairings where account = :account

-- name: chat_pairing_of(account, person)^
select code, account, person, name, expires from chat_pairings where account = :account and person = :person

-- name: put_chat_pairing(code, account, person, name, ttl_us)!
insert into chat_pairings (code, account, person, name, expires)
values (:code, :account, :person, :name, store_now() + :ttl_us)
on conflict do nothing

-- name: get_chat_pairing(code)^
select code, account, person, name, expires from chat_pairings where code = :code

-- name: chat_pairings(account)
select code, account, person, name, expires from chat_pairings
 where account = :account and expires > store_now() order by expires, code

-- name: delete_chat_pairing(code)!
delete from chat_pairings where code = :code
