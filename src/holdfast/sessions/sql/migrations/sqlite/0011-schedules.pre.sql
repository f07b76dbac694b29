-- Messages that are sent into a conversation at certain times. `rule` and `zone` say when, in words; `next_due` is
-- when it is due next, and null once it never is any more. What is removed stays while a run of it is open.
create table schedules (
    id          integer primary key autoincrement,
    scope       text not null,
    session_id  text not null check (session_id <> ''),
    own_session integer not null check (own_session in (0, 1)),
    text        text not null check (text <> ''),
    rule        text not null check (rule <> ''),
    zone        text not null check (zone <> ''),
    missed      text not null check (missed in ('once', 'all', 'skip')),
    state       text not null default 'active' check (state in ('active', 'paused', 'removed')),
    next_due    integer,
    room        text check (room <> ''),
    created_by  text not null,
    created     integer not null
) strict;

create index schedules_by_due on schedules (next_due) where state = 'active';

-- The runs of a schedule: one for each time at which it is due. A run ends with the turn of its message; telling a
-- chat of it is a state of its own. `missed` counts earlier times that have no run, because nothing ran then.
create table schedule_runs (
    id             integer primary key autoincrement,
    schedule_id    integer not null references schedules (id),
    due            integer not null,
    state          text not null default 'due' check (state in ('due', 'running', 'done', 'failed', 'skipped')),
    missed         integer not null default 0 check (missed >= 0),
    claimed_until  integer,
    -- Not a reference: the run ends as failed when its conversation is deleted.
    inbox_id       integer,
    turn_id        text,
    room           text,
    delivery       text not null default 'none' check (delivery in ('none', 'due', 'sent', 'failed')),
    error          text not null default '',
    delivery_error text not null default '',
    created        integer not null,
    started        integer,
    ended          integer,
    unique (schedule_id, due),
    check ((state = 'running') <= (claimed_until is not null)),
    check ((inbox_id is not null) <= (state in ('running', 'done', 'failed'))),
    check ((ended is not null) = (state in ('done', 'failed', 'skipped'))),
    check ((delivery <> 'none') <= (room is not null and state in ('done', 'failed')))
) strict;

create index open_schedule_runs on schedule_runs (due) where state in ('due', 'running');

create index owed_run_deliveries on schedule_runs (id) where delivery = 'due';
