-- Tables that were added to the first schema. An earlier release ignores them and keeps them right.

-- How often a passage was recalled for a turn, and how often the answer used it, as far as its words tell.
create table if not exists passage_uses (
    passage_id integer primary key,
    shown      integer not null default 0 check (shown >= 0),
    used       integer not null default 0 check (used >= 0),
    last_used  integer
) strict;

-- The sessions of people other than the owner: a passage has the scope of its session. It never changes.
create table if not exists scoped_sessions (
    session_no integer primary key references sessions (no),
    scope      text not null check (scope <> '')
) strict;

create index if not exists scoped_sessions_by_scope on scoped_sessions (scope);

create trigger if not exists passage_uses_removed after delete on passages begin
    delete from passage_uses where passage_id = old.id;
end;

create trigger if not exists passage_uses_outdated after update of text on passages begin
    delete from passage_uses where passage_id = old.id;
end;
