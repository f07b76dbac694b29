"""What the database of the torture writes down, by triggers that only the torture has.

Which node wrote to a conversation or a chat and who held its lease when that was committed; who claimed,
returned and settled each delivery; who took each lease from whom. A node is known by its `application_name`.

What needs a lease: a turn, its messages, a message of a person that is taken into it, a compaction (the
conversation's); an event of a chat, the end of a post, each of its parts (the account's). What any process
may do is left out: accept or withdraw a message, owe a delivery, post something that is to be sent.
"""

LOG = """
create table torture_writes (
    id bigint generated always as identity primary key, node text, what text, root text, turn text,
    holder text, token bigint, in_force boolean, written timestamptz default clock_timestamp()
);
create table torture_leases (
    id bigint generated always as identity primary key, node text, name text,
    old_holder text, old_token bigint, was_in_force boolean, holder text, token bigint,
    written timestamptz default clock_timestamp()
);
create table torture_deliveries (
    id bigint generated always as identity primary key, node text, delivery bigint, turn text, provider text,
    old_state text, was_in_force boolean, state text, written timestamptz default clock_timestamp()
);
create table torture_chats (
    id bigint generated always as identity primary key, node text, what text, account text, thing text,
    holder text, in_force boolean, written timestamptz default clock_timestamp()
);
create function torture_root(session text) returns text language sql as
    $$ select root from sessions where id = session $$;
create function torture_note(what text, session text, turn text) returns void language sql as $$
    insert into torture_writes (node, what, root, turn, holder, token, in_force)
    select current_setting('application_name'), what, r.root, turn, l.holder, l.token, l.expires > store_now()
      from (select torture_root(session) as root) r left join leases l on l.name = 'session:' || r.root
$$;
create function torture_turn() returns trigger language plpgsql as $$
begin
    perform torture_note(lower(tg_op) || ' turn, now ' || new.state, new.session_id, new.id);
    return null;
end $$;
create function torture_message() returns trigger language plpgsql as $$
begin
    perform torture_note('insert ' || new.role || ' message', new.session_id, new.turn_id);
    return null;
end $$;
create function torture_inbox() returns trigger language plpgsql as $$
begin
    perform torture_note('take message', new.session_id, new.turn_id);
    return null;
end $$;
create function torture_rotation() returns trigger language plpgsql as $$
begin
    perform torture_note('rotate', new.id, null);
    return null;
end $$;
create function torture_lease() returns trigger language plpgsql as $$
begin
    insert into torture_leases (node, name, old_holder, old_token, was_in_force, holder, token)
    -- The first holder of a lease has nobody before it: `old` is null then.
    values (current_setting('application_name'), new.name, old.holder, old.token,
            old.holder is not null and old.expires > store_now(), new.holder, new.token);
    return null;
end $$;
create function torture_delivery() returns trigger language plpgsql as $$
begin
    insert into torture_deliveries (node, delivery, turn, provider, old_state, was_in_force, state)
    values (current_setting('application_name'), new.id, new.turn_id, new.provider, old.state,
            old.state = 'claimed' and old.due > store_now(), new.state);
    return null;
end $$;
create function torture_chat(what text, room bigint, thing text) returns void language sql as $$
    insert into torture_chats (node, what, account, thing, holder, in_force)
    select current_setting('application_name'), what, r.account, thing, l.holder, l.expires > store_now()
      from chat_rooms r left join leases l on l.name = 'chat:' || r.account where r.id = room
$$;
create function torture_event() returns trigger language plpgsql as $$
begin
    perform torture_chat('receive event', new.room_id, new.id::text);
    return null;
end $$;
create function torture_post() returns trigger language plpgsql as $$
begin
    perform torture_chat('settle post, now ' || new.state, new.room_id, new.id::text);
    return null;
end $$;
create function torture_part() returns trigger language plpgsql as $$
begin
    perform torture_chat('part, now ' || new.state, (select room_id from chat_posts where id = new.post_id),
                         new.post_id || '-' || new.number);
    return null;
end $$;
-- Groups are guests, of whom nothing is remembered; the recorder, which does not keep people apart, is given
-- the owner's turns alone.
create view torture_whose as
    select t.*, case when s.scope = '' then 'owner' when exists
            (select 1 from chat_rooms r where r.is_direct = 0 and s.scope = r.account || '/' || r.chat)
            then 'group' else 'person' end as who
      from turns t join sessions s on s.id = t.session_id;
-- At the commit, so that they see the lease as it is when the change counts.
create constraint trigger torture_turns after insert or update on turns
    deferrable initially deferred for each row execute function torture_turn();
create constraint trigger torture_messages after insert on messages
    deferrable initially deferred for each row when (new.turn_id is not null and new.carried = 0)
    execute function torture_message();
create constraint trigger torture_inboxes after update on inbox
    deferrable initially deferred for each row when (old.state = 'waiting' and new.state = 'taken')
    execute function torture_inbox();
create constraint trigger torture_events after insert on chat_events
    deferrable initially deferred for each row execute function torture_event();
create constraint trigger torture_posts after update on chat_posts
    deferrable initially deferred for each row when (old.state = 'due' and new.state in ('sent', 'failed'))
    execute function torture_post();
create constraint trigger torture_parts after insert or update on chat_parts
    deferrable initially deferred for each row execute function torture_part();
create constraint trigger torture_rotations after insert on sessions
    deferrable initially deferred for each row when (new.relation = 'continuation')
    execute function torture_rotation();
create trigger torture_claims after update on outbox for each row
    when (old.state <> new.state or old.lease is distinct from new.lease) execute function torture_delivery();
create trigger torture_first after insert on leases for each row execute function torture_lease();
create trigger torture_taken after update on leases for each row
    when (old.holder is distinct from new.holder or old.token <> new.token) execute function torture_lease();
"""
