-- The turns that were sent to the server, which has no idempotency key for a turn.
create table turns (
    place integer primary key,
    key text not null unique,
    session text not null,
    turn text not null,
    state text not null check (state in ('owed', 'sending', 'sent', 'committed', 'done')),
    stretch integer references stretches (id),
    payload text,
    -- The text is kept until it is extracted: the server deletes it when an extraction fails.
    check ((state = 'done') = (payload is null)),
    check (stretch is null or state in ('sending', 'committed')),
    check (stretch is not null or state <> 'committed')
);

create index turns_of_session on turns (session, state);

-- Batches: turns that were committed together, until they are extracted.
create table stretches (
    id integer primary key,
    session text not null,
    state text not null check (state in ('committing', 'extracting', 'resending')),
    task text not null default '',
    archive text not null default '',
    attempt integer not null default 1,
    error text not null default '',
    holder integer not null default 0,
    held_until real not null default 0
);

create unique index one_committing_stretch on stretches (session) where state = 'committing';
