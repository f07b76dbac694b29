-- Requests to delete memories. `request` says what to delete and is removed once every provider has answered:
-- the record that stays has no word of what was forgotten.
create table forgettings (
    id        integer primary key autoincrement,
    key       text not null unique check (key <> ''),
    kind      text not null check (kind in ('memories', 'words', 'time', 'conversation', 'person')),
    turns     integer not null check (turns >= 0),
    request   text,
    requested integer not null
) strict;

-- What each provider has to do for a forgetting. `failed` waits for a person.
create table forgetting_tasks (
    forgetting_id integer not null references forgettings (id),
    provider      text not null check (provider <> ''),
    state         text not null default 'owed' check (state in ('owed', 'done', 'unable', 'failed')),
    attempts      integer not null default 0 check (attempts >= 0),
    due           integer not null,
    forgotten     integer not null default 0 check (forgotten >= 0),
    note          text not null default '',
    settled       integer,
    primary key (forgetting_id, provider),
    check ((settled is not null) = (state <> 'owed'))
) strict, without rowid;

create index open_forgettings on forgetting_tasks (provider, due) where state = 'owed';

-- Turns that no provider may be given any more.
create table forgotten_turns (
    turn_id       text primary key references turns (id) on delete cascade,
    forgetting_id integer not null references forgettings (id)
) strict, without rowid;

create index forgotten_turns_by_forgetting on forgotten_turns (forgetting_id);
