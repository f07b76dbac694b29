-- A conversation is a session with all its continuations, known by its first session: its root. What is
-- true of the whole stands on each of its sessions, and a continuation starts with its parent's.
alter table sessions add column root text references sessions (id);
alter table sessions add column spoken integer not null default 0;
alter table sessions add column changed integer not null default 0;
alter table sessions add column pinned integer not null default 0 check (pinned in (0, 1));
alter table sessions add column archived integer not null default 0 check (archived in (0, 1));
-- A conversation is listed at the session it goes on in; a subagent's is not.
alter table sessions add column listed integer not null default 0 check (listed in (0, 1));

-- What a turn's end says of its way: JSON, for people to look at.
alter table turns add column account text;

with recursive line (id, root) as (
    select id, id from sessions where relation is null or relation <> 'continuation'
    union all
    select s.id, line.root from line join sessions s on s.parent = line.id and s.relation = 'continuation'
)
update sessions set root = line.root from line where line.id = sessions.id;

update sessions set changed = started, spoken = coalesce(
    (select m.created from messages m where m.session_id = sessions.id order by m.seq desc limit 1), started);

update sessions set listed = 1
 where not exists (select 1 from sessions c where c.parent = sessions.id and c.relation = 'continuation')
   and not exists (select 1 from sessions r where r.id = sessions.root and r.relation = 'delegate');

create trigger conversation_begun after insert on sessions when new.relation is not 'continuation' begin
    update sessions
       set root = new.id, spoken = new.started, changed = new.started,
           listed = new.relation is not 'delegate'
     where id = new.id;
end;

create trigger conversation_continued after insert on sessions when new.relation = 'continuation' begin
    update sessions
       set (root, spoken, pinned, archived, listed) =
           (select p.root, p.spoken, p.pinned, p.archived, p.listed from sessions p where p.id = new.parent),
           changed = new.started
     where id = new.id;
    update sessions set listed = 0 where id = new.parent;
end;

-- The list reads as many as it shows; what it leaves out costs no look at the row.
create index sessions_by_spoken on sessions (spoken desc, id desc, archived, pinned, source) where listed = 1;
create index sessions_by_root on sessions (root);
create index sessions_by_changed on sessions (changed);

-- Conversations that were deleted, so that other processes hear of it; forgotten after a while.
create table deletions (
    root    text primary key,
    deleted integer not null
) strict, without rowid;

create index deletions_by_time on deletions (deleted);

-- Each key that refers to what a deletion removes is found by an index, so that it costs what it removes.
create index messages_by_predecessor on messages (session_id, before);
create index inbox_by_session on inbox (session_id);
create index inbox_by_turn on inbox (turn_id) where turn_id is not null;
create index inbox_by_addressee on inbox (addressed_to) where addressed_to is not null;
create index outbox_by_session on outbox (session_id);
create index leases_in_force on leases (expires) where holder is not null;
