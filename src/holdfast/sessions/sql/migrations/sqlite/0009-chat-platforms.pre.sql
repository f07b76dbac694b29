-- A chat of a chat platform, or one of its threads. `session_id` is the conversation that goes on there, known by
-- its first session, which may have yet to begin; null until the next message chooses one.
create table chat_rooms (
    id         integer primary key autoincrement,
    account    text not null check (account <> ''),
    chat       text not null check (chat <> ''),
    thread     text not null,
    is_direct  integer not null check (is_direct in (0, 1)),
    title      text not null,
    session_id text,
    created    integer not null,
    unique (account, chat, thread)
) strict;

create index chat_rooms_by_session on chat_rooms (session_id) where session_id is not null;

-- How far an account's receiver has got.
create table chat_cursors (
    account text not null check (account <> ''),
    name    text not null,
    value   text not null,
    primary key (account, name)
) strict, without rowid;

-- What a platform delivered, each event once. `key` is the key of the inbox message that it becomes.
create table chat_events (
    id         integer primary key autoincrement,
    account    text not null,
    chat       text not null,
    event_id   text not null check (event_id <> ''),
    key        text not null unique check (key <> ''),
    room_id    integer not null references chat_rooms (id),
    kind       text not null check (kind in ('message', 'press')),
    sender     text not null,
    message_id text not null,
    event      text not null,
    sent       integer not null,
    received   integer not null,
    state      text not null default 'new'
               check (state in ('new', 'joined', 'accepted', 'done', 'refused', 'expired')),
    joined_to  integer references chat_events (id),
    note       text not null default '',
    session_id text,
    unique (account, chat, event_id),
    check ((state = 'joined') = (joined_to is not null))
) strict;

create index new_chat_events on chat_events (account, id) where state = 'new';
create index joined_chat_events on chat_events (joined_to) where joined_to is not null;
create index chat_events_by_session on chat_events (session_id) where session_id is not null;
create index chat_events_by_room on chat_events (room_id, id);

-- What is to be shown in a chat. `open` grows with its turn, `due` is to be sent, `failed` waits for a person.
create table chat_posts (
    id         integer primary key autoincrement,
    key        text not null unique check (key <> ''),
    room_id    integer not null references chat_rooms (id),
    kind       text not null check (kind in ('answer', 'notice', 'ask', 'file')),
    reply_to   text not null,
    session_id text,
    turn_id    text,
    body       text not null,
    state      text not null check (state in ('open', 'due', 'sent', 'failed', 'dropped')),
    attempts   integer not null default 0 check (attempts >= 0),
    due        integer not null,
    error      text not null default '',
    created    integer not null,
    settled    integer,
    check ((settled is not null) = (state in ('sent', 'dropped')))
) strict;

create index due_chat_posts on chat_posts (room_id, id) where state = 'due';
create index failed_chat_posts on chat_posts (id) where state = 'failed';
create index chat_posts_by_session on chat_posts (session_id) where session_id is not null;
create index open_chat_posts on chat_posts (turn_id) where state = 'open';

-- The platform's messages that a post consists of. `sending`: the platform may have it or not. `standing`: it is
-- there and has yet to be changed into its text.
create table chat_parts (
    post_id    integer not null references chat_posts (id) on delete cascade,
    number     integer not null check (number >= 0),
    body       text not null,
    state      text not null default 'new' check (state in ('new', 'sending', 'standing', 'sent')),
    message_id text not null default '',
    tried      integer,
    primary key (post_id, number),
    check ((message_id <> '') = (state in ('standing', 'sent')))
) strict, without rowid;

create index chat_parts_by_message on chat_parts (message_id) where message_id <> '';

-- Who may talk with the agent on an account, by the platform's stable id.
create table chat_people (
    account text not null check (account <> ''),
    person  text not null check (person <> ''),
    name    text not null,
    role    text not null check (role in ('owner', 'user', 'guest', 'blocked')),
    added   integer not null,
    primary key (account, person)
) strict, without rowid;

-- Strangers who asked to be let in.
create table chat_pairings (
    code    text primary key check (code <> ''),
    account text not null,
    person  text not null,
    name    text not null,
    expires integer not null,
    unique (account, person)
) strict, without rowid;
