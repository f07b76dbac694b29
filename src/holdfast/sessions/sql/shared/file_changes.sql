-- name: record_file_change(turn_id, workspace, path, tool, before_hash, before_mode, after_hash, after_mode, settled)$
-- Nothing is recorded for a turn that this store does not know.
insert into file_changes (turn_id, workspace, path, tool, before_hash, before_mode, after_hash, after_mode, settled,
                          created)
select id, :workspace, :path, :tool, :before_hash, cast(:before_mode as bigint), :after_hash,
       cast(:after_mode as bigint), cast(:settled as bigint), store_now()
  from turns where id = :turn_id
returning id

-- name: settle_file_change(id, after_hash, after_mode)!
update file_changes set after_hash = :after_hash, after_mode = :after_mode, settled = 1
 where id = :id and settled = 0

-- name: drop_file_change(id)!
delete from file_changes where id = :id and undone is null

-- name: mark_file_change_undone(id)!
update file_changes set undone = store_now() where id = :id and undone is null

-- name: file_changes_of_turn(turn_id)
select c.id, c.turn_id, s.root, c.workspace, c.path, c.tool, c.created, c.undone, c.settled,
       c.before_hash, c.before_mode, c.after_hash, c.after_mode
  from file_changes c join turns t on t.id = c.turn_id join sessions s on s.id = t.session_id
 where c.turn_id = :turn_id order by c.id

-- name: turns_with_file_changes(root)
select distinct t.id
  from sessions s join turns t on t.session_id = s.id join file_changes c on c.turn_id = t.id
 where s.root = :root

-- name: conversation_of_turn(id)$
select s.root from turns t join sessions s on s.id = t.session_id where t.id = :id

-- name: turns_between(session_id, start, before)
select turn_id from messages
 where session_id = :session_id and seq >= :start and seq < :before and turn_id is not null
 group by turn_id order by min(seq)

-- name: carried_count(session_id)$
select count(*) from messages where session_id = :session_id and carried = 1

-- name: delete_file_changes(root)!
delete from file_changes
 where turn_id in (select t.id from sessions s join turns t on t.session_id = s.id where s.root = :root)
