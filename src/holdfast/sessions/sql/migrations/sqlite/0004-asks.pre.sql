-- What a turn waits for a person to say, so that any process can show and answer it. A row lives no longer
-- than its turn, and counts only while the lease under which it was asked is in force.
create table asks (
    id      text primary key check (id <> ''),
    turn_id text not null references turns (id) on delete cascade,
    lease   text not null,
    token   integer not null,
    -- The event that shows it, as JSON.
    asked   text not null,
    state   text not null default 'open' check (state in ('open', 'answered', 'closed')),
    answer  text,
    created integer not null,
    check ((state = 'answered') = (answer is not null))
) strict, without rowid;

create index asks_by_turn on asks (turn_id);
