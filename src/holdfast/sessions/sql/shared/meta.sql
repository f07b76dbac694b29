-- name: meta_value(key)$
select value from meta where key = :key

-- name: set_meta(key, value)!
insert into meta (key, value) values (:key, :value) on conflict (key) do update set value = excluded.value

-- name: forget_meta(key)!
delete from meta where key = :key
