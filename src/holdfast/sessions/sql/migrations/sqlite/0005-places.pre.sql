-- A message's place was held by a key that refers to the message before it. Such a key needs an index of its
-- own, or a deletion looks through the whole session for each message; and each append pays for that index.
-- Two triggers hold the same by the one index that finds a message by its place.
drop view searchable_messages;

create table placed_messages (
    id         integer primary key,
    session_id text not null references sessions (id),
    seq        integer not null check (seq >= 0),
    turn_id    text references turns (id),
    role       text not null,
    content    text,
    extra      text,
    created    integer not null,
    carried    integer not null default 0 check (carried in (0, 1)),
    unique (session_id, seq),
    check (content is not null or extra is not null)
) strict;

insert into placed_messages (id, session_id, seq, turn_id, role, content, extra, created, carried)
select id, session_id, seq, turn_id, role, content, extra, created, carried from messages order by id;

drop table messages;

alter table placed_messages rename to messages;

create index messages_by_turn on messages (turn_id) where turn_id is not null;

create view searchable_messages as
    select id, content from messages where carried = 0 and content is not null;

-- Dense sequences: a message stands on the one before it, stays where it is, and goes only with its whole
-- conversation.
create trigger message_placed before insert on messages
    when new.seq > 0
     and not exists (select 1 from messages where session_id = new.session_id and seq = new.seq - 1) begin
    select raise(abort, 'a message stands on the one before it');
end;

create trigger message_moved before update of id, session_id, seq on messages begin
    select raise(abort, 'a message stays in its place');
end;

create trigger message_deleted before delete on messages
    when not exists (select 1 from sessions s join deletions d on d.root = s.root where s.id = old.session_id)
begin
    select raise(abort, 'a message goes only with its conversation');
end;
