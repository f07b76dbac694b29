-- serves: 0015
-- What an account's conversations keep, and how much they may. A limit of null is none. `storage_used` is as of
-- `storage_measured`; 0 there has the account measured at the next look.
alter table users add column storage_limit bigint check (storage_limit >= 0);
alter table users add column storage_used bigint not null default 0 check (storage_used >= 0);
alter table users add column storage_measured bigint not null default 0;

-- How many bytes of a session are counted: its messages before `next_seq`, and what was sent to it before `next_inbox`.
-- Both never change, so each is read once. A program that does not know the table deletes sessions as before.
create table stored_sizes (
    session_id text collate "C" primary key references sessions (id) on delete cascade,
    next_seq   bigint not null check (next_seq >= 0),
    next_inbox bigint not null check (next_inbox >= 0),
    bytes      bigint not null check (bytes >= 0)
);
