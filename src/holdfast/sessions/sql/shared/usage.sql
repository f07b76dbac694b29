-- name: insert_usage(session_id, turn_id, purpose, model, requests, input_tokens, output_tokens, cached_tokens, cost)!
insert into model_usage (root, turn_id, purpose, model, requests, input_tokens, output_tokens, cached_tokens, cost,
                         created)
values ((select root from sessions where id = cast(:session_id as text)), :turn_id, :purpose, :model, :requests, :input_tokens, :output_tokens, :cached_tokens, :cost, store_now())

-- name: usage_by_quarter_hour(since, until, root, turn_id, scope)
-- Quarters of an hour, so that days can be told in any time zone.
select created / 900000000, root, purpose, model, cast(sum(requests) as bigint), cast(sum(input_tokens) as bigint),
       cast(sum(output_tokens) as bigint), cast(sum(cached_tokens) as bigint), cast(sum(cost) as bigint),
       cast(sum(case when cost is null then requests else 0 end) as bigint)
  from model_usage
 where created >= :since and created < :until
   and (cast(:root as text) is null or root = :root) and (cast(:turn_id as text) is null or turn_id = :turn_id)
   and (cast(:scope as text) is null
        or exists (select 1 from sessions s where s.id = model_usage.root and s.scope = :scope))
 group by 1, 2, 3, 4 order by 1, 2, 3, 4

-- name: free_usage(root)!
update model_usage set root = null, turn_id = null where root = :root
