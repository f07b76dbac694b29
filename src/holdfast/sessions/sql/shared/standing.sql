-- name: store_time()$
select store_now()

-- name: busy_conversations()
-- Where a turn is open or a message waits. A subagent's is its caller's business.
select s.root from turns t join sessions s on s.id = t.session_id join sessions r on r.id = s.root
 where t.state = 'running' and (r.relation is null or r.relation <> 'delegate')
union
select s.root from inbox i join sessions s on s.id = i.session_id join sessions r on r.id = s.root
 where i.state = 'waiting' and (r.relation is null or r.relation <> 'delegate')

-- name: changed_conversations(since)
select root from sessions where changed >= :since and listed = 1
union
select root from sessions where spoken >= :since and listed = 1
union
select root from deletions where deleted >= :since

-- name: open_deliveries(root)$
select count(*) from sessions s join outbox o on o.session_id = s.id and o.state in ('owed', 'claimed')
 where s.root = :root
