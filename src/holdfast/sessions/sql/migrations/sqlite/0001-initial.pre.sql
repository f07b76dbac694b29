-- The first schema. Times are integer microseconds since the epoch, from the store's own clock.

pragma application_id = 0x484f4c44;

create table meta (
    key   text primary key,
    value text not null
) strict, without rowid;

create table sessions (
    id                   text primary key check (id <> ''),
    parent               text references sessions (id),
    relation             text check (relation in ('continuation', 'branch', 'delegate')),
    source               text not null,
    title                text,
    started              integer not null,
    ended                integer,
    end_reason           text,
    generation           integer not null default 0,
    committed_generation integer not null default 0,
    check ((parent is null) = (relation is null)),
    check ((ended is null) = (end_reason is null)),
    check (committed_generation between 0 and generation)
) strict;

-- A session is never forked: one continuation per parent, lock or no lock.
create unique index one_continuation on sessions (parent) where relation = 'continuation';
create index sessions_by_parent on sessions (parent) where parent is not null;
create index uncommitted_sessions on sessions (id) where generation > committed_generation;

create table turns (
    id         text primary key check (id <> ''),
    session_id text not null references sessions (id),
    state      text not null check (state in ('running', 'completed', 'interrupted', 'failed')),
    started    integer not null,
    ended      integer,
    reason     text,
    generation integer,
    -- The messages as a library handed them over, as JSON; kept while the turn is owed to somebody.
    handover   text,
    check ((state = 'running') = (ended is null)),
    check ((state = 'completed') = (generation is not null))
) strict, without rowid;

create unique index one_running_turn on turns (session_id) where state = 'running';
create index turns_by_session on turns (session_id);
create unique index one_turn_per_generation on turns (session_id, generation) where generation is not null;

create table messages (
    id         integer primary key,
    session_id text not null references sessions (id),
    seq        integer not null check (seq >= 0),
    turn_id    text references turns (id),
    role       text not null,
    content    text,
    extra      text,
    created    integer not null,
    carried    integer not null default 0 check (carried in (0, 1)),
    -- Dense sequences: a message stands on the one before it.
    before     integer generated always as (nullif(seq, 0) - 1) virtual,
    unique (session_id, seq),
    foreign key (session_id, before) references messages (session_id, seq),
    check (content is not null or extra is not null)
) strict;

create index messages_by_turn on messages (turn_id) where turn_id is not null;

-- Carried messages are copies of ones already indexed, so search finds each text once.
create view searchable_messages as
    select id, content from messages where carried = 0 and content is not null;

-- Filled in batches, behind the messages: what is missing is every message past the last one indexed.
create virtual table message_index using fts5 (
    content, content = 'searchable_messages', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

create table inbox (
    id           integer primary key autoincrement,
    session_id   text not null references sessions (id),
    mode         text not null check (mode in ('queue', 'steer', 'interrupt')),
    message      text not null,
    state        text not null default 'waiting' check (state in ('waiting', 'taken', 'withdrawn')),
    turn_id      text references turns (id),
    addressed_to text references turns (id),
    key          text unique,
    created      integer not null,
    check ((state = 'taken') = (turn_id is not null))
) strict;

create index waiting_messages on inbox (session_id, id) where state = 'waiting';

create table outbox (
    id         integer primary key autoincrement,
    session_id text not null references sessions (id),
    turn_id    text not null references turns (id),
    provider   text not null check (provider <> ''),
    state      text not null default 'owed'
               check (state in ('owed', 'claimed', 'delivered', 'set_aside', 'dropped')),
    attempts   integer not null default 0 check (attempts >= 0),
    -- When the row may be claimed: now, after a retry's delay, or when the present claim's lease runs out.
    due        integer not null,
    lease      text,
    last_error text,
    created    integer not null,
    settled    integer,
    unique (turn_id, provider),
    check ((state = 'claimed') = (lease is not null)),
    check ((settled is not null) = (state in ('delivered', 'dropped')))
) strict;

create index open_deliveries on outbox (provider, session_id, id) where state in ('owed', 'claimed');
create index claims on outbox (lease) where lease is not null;
create index deliveries_set_aside on outbox (provider, id) where state = 'set_aside';

create table leases (
    name    text primary key check (name <> ''),
    holder  text,
    token   integer not null check (token > 0),
    expires integer not null
) strict, without rowid;
