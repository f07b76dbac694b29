-- Whose conversation it is: '' is the owner of this installation, every other name a person or a room that
-- talks with the agent. A session that comes from another has that one's scope, and keeps it.
alter table sessions add column scope text not null default '';

drop trigger conversation_begun;

create trigger conversation_begun after insert on sessions when new.relation is not 'continuation' begin
    update sessions
       set root = new.id, last_active = new.started, changed = new.started,
           listed = new.relation is not 'delegate',
           scope = coalesce((select p.scope from sessions p where p.id = new.parent), new.scope)
     where id = new.id;
end;

drop trigger conversation_continued;

create trigger conversation_continued after insert on sessions when new.relation = 'continuation' begin
    update sessions
       set (root, last_active, pinned, archived, listed, scope) =
           (select p.root, p.last_active, p.pinned, p.archived, p.listed, p.scope
              from sessions p where p.id = new.parent),
           changed = new.started
     where id = new.id;
    update sessions set listed = 0 where id = new.parent;
end;

create trigger scope_kept before update of scope on sessions
    when old.root is not null and new.scope is not old.scope begin
    select raise(abort, 'a session keeps its scope');
end;

-- The list reads as many as it shows, also for one scope.
drop index sessions_by_last_active;

create index sessions_by_last_active on sessions (last_active desc, id desc, archived, pinned, source, scope)
    where listed = 1;

create index sessions_by_scope on sessions (scope);
