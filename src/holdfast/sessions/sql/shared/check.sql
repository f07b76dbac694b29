-- name: inconsistencies()
-- What no constraint can hold by itself, one finding a row.
select 'session ' || p.id || ' goes on in ' || c.id || ' but has not ended by compression'
  from sessions c join sessions p on p.id = c.parent
 where c.relation = 'continuation' and (p.ended is null or p.end_reason <> 'compression')
union all
select 'the messages of session ' || session_id || ' have gaps'
  from messages group by session_id having max(seq) + 1 <> count(*)
union all
select 'turn ' || t.id || ' has generation ' || t.generation || ', its session only ' || s.generation
  from turns t join sessions s on s.id = t.session_id where t.generation > s.generation
union all
select 'turn ' || t.id || ' runs in session ' || c.parent || ', which goes on in ' || c.id
  from turns t join sessions c on c.parent = t.session_id and c.relation = 'continuation'
 where t.state = 'running'
union all
select 'inbox message ' || i.id || ' waits in session ' || c.parent || ', which goes on in ' || c.id
  from inbox i join sessions c on c.parent = i.session_id and c.relation = 'continuation'
 where i.state = 'waiting'
union all
select 'delivery ' || o.id || ' is owed for turn ' || t.id || ', which is ' || t.state
  from outbox o join turns t on t.id = o.turn_id where t.state <> 'completed'
union all
select 'session ' || s.id || ' is not in the conversation of the session it continues'
  from sessions s join sessions p on p.id = s.parent
 where s.relation = 'continuation' and coalesce(s.root, '') <> coalesce(p.root, '')
union all
select 'session ' || s.id || ' is listed wrongly'
  from sessions s join sessions r on r.id = s.root
 where s.listed <> case
           when r.relation = 'delegate' then 0
           when exists (select 1 from sessions c where c.parent = s.id and c.relation = 'continuation') then 0
           else 1 end
union all
select 'session ' || id || ' begins a conversation and is not its root'
  from sessions where (relation is null or relation <> 'continuation') and coalesce(root, '') <> id
