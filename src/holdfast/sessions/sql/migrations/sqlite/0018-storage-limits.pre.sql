-- serves: 0015
-- What an account's conversations keep, and how much they may. A limit of null is none. `storage_used` is as of
-- `storage_measured`; 0 there has the account measured at the next look.
alter table users add column storage_limit integer check (storage_limit >= 0);
alter table users add column storage_used integer not null default 0 check (storage_used >= 0);
alter table users add column storage_measured integer not null default 0;

-- How many bytes of a session are counted: its messages before `next_seq`, and what was sent to it before `next_inbox`.
-- Both never change, so each is read once. A program that does not know the table deletes sessions as before.
create table stored_sizes (
    session_id text primary key references sessions (id) on delete cascade,
    next_seq   integer not null check (next_seq >= 0),
    next_inbox integer not null check (next_inbox >= 0),
    bytes      integer not null check (bytes >= 0)
) strict, without rowid;
