-- Whose conversation it is: '' is the owner of this installation, every other name a person or a room that
-- talks with the agent. A session that comes from another has that one's scope, and keeps it.
alter table sessions add column scope text collate "C" not null default '';

create function inherit_scope() returns trigger language plpgsql as $function$
begin
    if tg_op = 'INSERT' and new.parent is not null then
        select p.scope into strict new.scope from sessions p where p.id = new.parent;
    elsif tg_op = 'UPDATE' and new.scope <> old.scope then
        raise exception 'a session keeps its scope' using errcode = 'integrity_constraint_violation';
    end if;
    return new;
end
$function$;

create trigger scope_inherited before insert or update of scope on sessions
    for each row execute function inherit_scope();

-- The list reads as many as it shows, also for one scope.
drop index sessions_by_last_active;

create index sessions_by_last_active on sessions (last_active desc, id desc)
    include (archived, pinned, source, scope) where listed = 1;

create index sessions_by_scope on sessions (scope);
