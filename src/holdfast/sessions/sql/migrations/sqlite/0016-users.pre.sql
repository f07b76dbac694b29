-- serves: 0015
-- Accounts of one installation. `scope` is that of an account's conversations, `name_key` the name without its case.
-- A program of an earlier release treats these scopes as a guest's.
create table users (
    id            text primary key check (id <> ''),
    name          text not null check (name <> ''),
    name_key      text not null unique check (name_key <> ''),
    role          text not null check (role in ('admin', 'user', 'guest')),
    scope         text not null unique check (scope = 'user/' || id),
    password_hash text check (password_hash <> ''),
    daily_turns   integer check (daily_turns >= 0),
    daily_tokens  integer check (daily_tokens >= 0),
    created       integer not null,
    disabled      integer
) strict;

-- What an account shows to be let in. Only the SHA-256 of a random secret is kept.
create table user_tokens (
    id        text primary key check (id <> ''),
    user_id   text not null references users (id),
    label     text not null,
    kind      text not null check (kind in ('token', 'sign-in')),
    digest    text not null unique check (length(digest) = 64),
    created   integer not null,
    last_used integer,
    expires   integer,
    revoked   integer
) strict;

create index user_tokens_by_user on user_tokens (user_id);

-- Who an account is elsewhere: the subject of an issuer of sign-ins, or a person on an account of a chat platform.
create table user_identities (
    issuer  text not null check (issuer <> ''),
    subject text not null check (subject <> ''),
    user_id text not null references users (id),
    created integer not null,
    primary key (issuer, subject)
) strict;

create index user_identities_by_user on user_identities (user_id);

create table invitations (
    digest  text primary key check (length(digest) = 64),
    role    text not null check (role in ('admin', 'user', 'guest')),
    created integer not null,
    expires integer not null,
    -- Not a reference: an invitation stays used when its account is removed.
    used_by text check (used_by <> '')
) strict;

create table audit_log (
    id     integer primary key autoincrement,
    at     integer not null,
    actor  text not null,
    action text not null check (action <> ''),
    target text not null,
    detail text not null
) strict;

-- The turns of the last day whose conversations were deleted: they count for the limits of their scope.
create table deleted_turns (
    id      integer primary key autoincrement,
    scope   text not null check (scope <> ''),
    started integer not null,
    ended   integer,
    tokens  integer not null
) strict;

create index deleted_turns_by_scope on deleted_turns (scope, started);

create index audit_log_by_actor on audit_log (actor, id);
