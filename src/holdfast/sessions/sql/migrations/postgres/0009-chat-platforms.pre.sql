-- A chat of a chat platform, or one of its threads. `session_id` is the conversation that goes on there, known by
-- its first session, which may have yet to begin; null until the next message chooses one.
create table chat_rooms (
    id         bigint generated always as identity primary key,
    account    text collate "C" not null check (account <> ''),
    chat       text collate "C" not null check (chat <> ''),
    thread     text collate "C" not null,
    is_direct  bigint not null check (is_direct in (0, 1)),
    title      text not null,
    session_id text collate "C",
    created    bigint not null,
    unique (account, chat, thread)
);

create index chat_rooms_by_session on chat_rooms (session_id) where session_id is not null;

-- How far an account's receiver has got.
create table chat_cursors (
    account text collate "C" not null check (account <> ''),
    name    text collate "C" not null,
    value   text not null,
    primary key (account, name)
);

-- What a platform delivered, each event once. `key` is the key of the inbox message that it becomes.
create table chat_events (
    id         bigint generated always as identity primary key,
    account    text collate "C" not null,
    chat       text collate "C" not null,
    event_id   text collate "C" not null check (event_id <> ''),
    key        text collate "C" not null unique check (key <> ''),
    room_id    bigint not null references chat_rooms (id),
    kind       text not null check (kind in ('message', 'press')),
    sender     text not null,
    message_id text collate "C" not null,
    event      text not null,
    sent       bigint not null,
    received   bigint not null,
    state      text not null default 'new'
               check (state in ('new', 'joined', 'accepted', 'done', 'refused', 'expired')),
    joined_to  bigint references chat_events (id),
    note       text not null default '',
    session_id text collate "C",
    unique (account, chat, event_id),
    check ((state = 'joined') = (joined_to is not null))
);

create index new_chat_events on chat_events (account, id) where state = 'new';
create index joined_chat_events on chat_events (joined_to) where joined_to is not null;
create index chat_events_by_session on chat_events (session_id) where session_id is not null;
create index chat_events_by_room on chat_events (room_id, id);

-- What is to be shown in a chat. `open` grows with its turn, `due` is to be sent, `failed` waits for a person.
create table chat_posts (
    id         bigint generated always as identity primary key,
    key        text collate "C" not null unique check (key <> ''),
    room_id    bigint not null references chat_rooms (id),
    kind       text not null check (kind in ('answer', 'notice', 'ask', 'file')),
    reply_to   text not null,
    session_id text collate "C",
    turn_id    text collate "C",
    body       text not null,
    state      text not null check (state in ('open', 'due', 'sent', 'failed', 'dropped')),
    attempts   bigint not null default 0 check (attempts >= 0),
    due        bigint not null,
    error      text not null default '',
    created    bigint not null,
    settled    bigint,
    check ((settled is not null) = (state in ('sent', 'dropped')))
);

create index due_chat_posts on chat_posts (room_id, id) where state = 'due';
create index failed_chat_posts on chat_posts (id) where state = 'failed';
create index chat_posts_by_session on chat_posts (session_id) where session_id is not null;
create index open_chat_posts on chat_posts (turn_id) where state = 'open';

-- The platform's messages that a post consists of. `sending`: the platform may have it or not. `standing`: it is
-- there and has yet to be changed into its text.
create table chat_parts (
    post_id    bigint not null references chat_posts (id) on delete cascade,
    number     bigint not null check (number >= 0),
    body       text not null,
    state      text not null default 'new' check (state in ('new', 'sending', 'standing', 'sent')),
    message_id text collate "C" not null default '',
    tried      bigint,
    primary key (post_id, number),
    check ((message_id <> '') = (state in ('standing', 'sent')))
);

create index chat_parts_by_message on chat_parts (message_id) where message_id <> '';

-- Who may talk with the agent on an account, by the platform's stable id.
create table chat_people (
    account text collate "C" not null check (account <> ''),
    person  text collate "C" not null check (person <> ''),
    name    text collate "C" not null,
    role    text not null check (role in ('owner', 'user', 'guest', 'blocked')),
    added   bigint not null,
    primary key (account, person)
);

-- Strangers who asked to be let in.
create table chat_pairings (
    code    text collate "C" primary key check (code <> ''),
    account text collate "C" not null,
    person  text collate "C" not null,
    name    text collate "C" not null,
    expires bigint not null,
    unique (account, person)
);
