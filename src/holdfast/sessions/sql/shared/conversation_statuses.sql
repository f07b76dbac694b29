-- name: conversations_of_others(holder)
-- Where a turn is open or a message waits and this holder has no lease: each with who has it, if anybody.
-- The longest ids have leases of other names, so they come without a holder whoever has them.
select busy.root, busy.cut_off, l.holder
  from (select s.root, max(cut_off) as cut_off
          from (select session_id, 1 as cut_off from turns where state = 'running'
                union all
                select session_id, 0 from inbox where state = 'waiting') b
          join sessions s on s.id = b.session_id
         group by s.root) busy
  join sessions r on r.id = busy.root and (r.relation is null or r.relation <> 'delegate')
  left join leases l on l.name = 'session:' || busy.root and l.holder is not null and l.expires > store_now()
 where l.holder is null or l.holder <> :holder

-- name: delegated_turns()
-- The sessions of subagents in which a turn is open.
select t.session_id from turns t join sessions s on s.id = t.session_id join sessions r on r.id = s.root
 where t.state = 'running' and r.relation = 'delegate'

-- name: open_deliveries(root)$
select count(*) from sessions s join outbox o on o.session_id = s.id and o.state in ('owed', 'claimed')
 where s.root = :root
