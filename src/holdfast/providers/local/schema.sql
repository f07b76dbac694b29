-- The schema of the local memory, version 2. Times are integer microseconds since the epoch.

pragma application_id = 0x484f4c4d;

create table meta (
    key   text primary key,
    value text not null
) strict, without rowid;

-- The file of codes beside this one belongs to the database with this mark.
insert into meta (key, value) values ('store', lower(hex(randomblob(16))));

create table sessions (
    no integer primary key,
    id text not null unique
) strict;

-- A passage is a turn's question or answer, a piece of one that is long, or a note. Ids are never used
-- again, so another process can't take a new passage for one that was forgotten.
create table passages (
    id         integer primary key autoincrement,
    kind       text not null check (kind in ('turn', 'note')),
    session_no integer not null references sessions (no),
    -- The position in the session. Notes are far apart, so they have no neighbours.
    place      integer not null,
    turn_key   text,
    part       integer not null default 0,
    turn_id    text,
    speaker    text not null,
    text       text not null check (text <> ''),
    day        text not null,
    unspaced   text not null,
    created    integer not null,
    check ((kind = 'turn') = (turn_key is not null)),
    unique (turn_key, part),
    unique (session_no, place)
) strict;

create index passages_by_speaker on passages (speaker);

create virtual table passage_index using fts5 (
    text, day, unspaced, content = 'passages', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

create trigger passage_added after insert on passages begin
    insert into passage_index (rowid, text, day, unspaced) values (new.id, new.text, new.day, new.unspaced);
    insert into unembedded (passage_id) values (new.id);
end;

create trigger passage_removed after delete on passages begin
    insert into passage_index (passage_index, rowid, text, day, unspaced)
    values ('delete', old.id, old.text, old.day, old.unspaced);
    delete from vectors where passage_id = old.id;
    delete from unembedded where passage_id = old.id;
end;

create trigger passage_changed after update of text, day, unspaced on passages begin
    insert into passage_index (passage_index, rowid, text, day, unspaced)
    values ('delete', old.id, old.text, old.day, old.unspaced);
    insert into passage_index (rowid, text, day, unspaced) values (new.id, new.text, new.day, new.unspaced);
    delete from vectors where passage_id = old.id;
    insert into unembedded (passage_id) values (new.id) on conflict do nothing;
end;

-- One signed byte for each dimension. The newest stamp tells whether the file of codes is up to date.
create table vectors (
    stamp      integer primary key autoincrement,
    passage_id integer not null unique references passages (id),
    model      text not null,
    vector     blob not null
) strict;

create index vectors_by_model on vectors (model);

-- The passages to be embedded; all of them when the extra is not installed.
create table unembedded (
    passage_id integer primary key references passages (id)
) strict;

-- Passages whose codes are still to be erased from the file of codes. No text.
create table erased (
    passage_id integer primary key
) strict;

create trigger vector_removed after delete on vectors begin
    insert into erased (passage_id) values (old.passage_id) on conflict do nothing;
end;

-- A forgotten turn that is delivered once more stays forgotten.
create table forgotten_turns (
    turn_key text primary key
) strict, without rowid;
