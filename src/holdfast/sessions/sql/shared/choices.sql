-- name: get_choice(root)^
select model, workspace, folder from conversation_choices where root = :root

-- name: put_choice(root, model, workspace, folder)!
insert into conversation_choices (root, model, workspace, folder) values (:root, :model, :workspace, :folder)
on conflict (root) do update
   set model = excluded.model, workspace = excluded.workspace, folder = excluded.folder

-- name: copy_choice(origin, root)!
-- A branch goes on with what was chosen for the conversation that it left.
insert into conversation_choices (root, model, workspace, folder)
select :root, c.model, c.workspace, c.folder from conversation_choices c where c.root = :origin

-- name: delete_choice(root)!
delete from conversation_choices where root = :root

-- name: list_folders()
select f.name, f.workspace, f.created,
       (select count(*) from conversation_choices c where c.folder = f.name) as conversations
  from folders f order by f.name

-- name: get_folder(name)^
select f.name, f.workspace, f.created,
       (select count(*) from conversation_choices c where c.folder = f.name) as conversations
  from folders f where f.name = :name

-- name: put_folder(name, workspace)!
insert into folders (name, workspace, created) values (:name, :workspace, store_now())
on conflict (name) do update set workspace = excluded.workspace

-- name: ensure_folder(name)!
insert into folders (name, workspace, created) values (:name, '', store_now()) on conflict do nothing

-- name: rename_folder(name, new_name)!
update folders set name = :new_name where name = :name

-- name: refile_conversations(name, new_name)!
update conversation_choices set folder = :new_name where folder = :name

-- name: empty_folder(name)!
update conversation_choices set folder = '' where folder = :name

-- name: remove_folder(name)!
delete from folders where name = :name

-- name: own_prompts()
select name, text, changed from own_prompts order by name

-- name: put_own_prompt(name, text)!
insert into own_prompts (name, text, changed) values (:name, :text, store_now())
on conflict (name) do update set text = excluded.text, changed = excluded.changed

-- name: remove_own_prompt(name)!
delete from own_prompts where name = :name
