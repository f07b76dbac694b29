-- serves: 0015
-- Accounts of one installation. `scope` is that of an account's conversations, `name_key` the name without its case.
-- A program of an earlier release treats these scopes as a guest's.
create table users (
    id            text collate "C" primary key check (id <> ''),
    name          text not null check (name <> ''),
    name_key      text collate "C" not null unique check (name_key <> ''),
    role          text not null check (role in ('admin', 'user', 'guest')),
    scope         text collate "C" not null unique check (scope = 'user/' || id),
    password_hash text check (password_hash <> ''),
    daily_turns   bigint check (daily_turns >= 0),
    daily_tokens  bigint check (daily_tokens >= 0),
    created       bigint not null,
    disabled      bigint
);

-- What an account shows to be let in. Only the SHA-256 of a random secret is kept.
create table user_tokens (
    id        text collate "C" primary key check (id <> ''),
    user_id   text collate "C" not null references users (id),
    label     text not null,
    kind      text not null check (kind in ('token', 'sign-in')),
    digest    text collate "C" not null unique check (length(digest) = 64),
    created   bigint not null,
    last_used bigint,
    expires   bigint,
    revoked   bigint
);

create index user_tokens_by_user on user_tokens (user_id);

-- Who an account is elsewhere: the subject of an issuer of sign-ins, or a person on an account of a chat platform.
create table user_identities (
    issuer  text collate "C" not null check (issuer <> ''),
    subject text collate "C" not null check (subject <> ''),
    user_id text collate "C" not null references users (id),
    created bigint not null,
    primary key (issuer, subject)
);

create index user_identities_by_user on user_identities (user_id);

create table invitations (
    digest  text collate "C" primary key check (length(digest) = 64),
    role    text not null check (role in ('admin', 'user', 'guest')),
    created bigint not null,
    expires bigint not null,
    -- Not a reference: an invitation stays used when its account is removed.
    used_by text check (used_by <> '')
);

create table audit_log (
    id     bigint generated always as identity primary key,
    at     bigint not null,
    actor  text not null,
    action text not null check (action <> ''),
    target text not null,
    detail text not null
);

create index audit_log_by_actor on audit_log (actor, id);

-- The turns of the last day whose conversations were deleted: they count for the limits of their scope.
create table deleted_turns (
    id      bigint generated always as identity primary key,
    scope   text collate "C" not null check (scope <> ''),
    started bigint not null,
    ended   bigint,
    tokens  bigint not null
);

create index deleted_turns_by_scope on deleted_turns (scope, started);
