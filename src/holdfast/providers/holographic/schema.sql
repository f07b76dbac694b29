-- The first schema of the holographic memory. Times are integer microseconds since the epoch.

pragma application_id = 0x484f4c48;

create table meta (
    key   text primary key,
    value text not null
) strict, without rowid;

-- A fact is one statement. `key` is the same for a text however it is spaced and cased, `likeness` also
-- for other endings and articles; both are hashes.
create table facts (
    id        integer primary key autoincrement,
    content   text not null check (content <> ''),
    key       text not null unique,
    likeness  text not null,
    category  text not null check (category in ('user_pref', 'project', 'tool', 'general')),
    tags      text not null,
    unspaced  text not null,
    trust     real not null check (trust between 0 and 1),
    helpful   integer not null default 0,
    unhelpful integer not null default 0,
    created   integer not null,
    updated   integer not null
) strict;

create index facts_by_likeness on facts (likeness);

create virtual table fact_index using fts5 (
    content, tags, unspaced, content = 'facts', content_rowid = 'id',
    tokenize = 'porter unicode61 remove_diacritics 2'
);

create trigger fact_added after insert on facts begin
    insert into fact_index (rowid, content, tags, unspaced)
    values (new.id, new.content, new.tags, new.unspaced);
end;

create trigger fact_removed after delete on facts begin
    insert into fact_index (fact_index, rowid, content, tags, unspaced)
    values ('delete', old.id, old.content, old.tags, old.unspaced);
    insert into removals (fact_id) values (old.id);
end;

create trigger fact_changed after update of content, tags, unspaced on facts begin
    insert into fact_index (fact_index, rowid, content, tags, unspaced)
    values ('delete', old.id, old.content, old.tags, old.unspaced);
    insert into fact_index (rowid, content, tags, unspaced)
    values (new.id, new.content, new.tags, new.unspaced);
end;

-- Who or what facts are about. An entity may have several names.
create table entities (
    id   integer primary key,
    key  text not null unique,
    name text not null
) strict;

create table entity_names (
    key       text primary key,
    entity_id integer not null references entities (id) on delete cascade
) strict, without rowid;

create index names_by_entity on entity_names (entity_id);

create table fact_entities (
    entity_id integer not null references entities (id),
    fact_id   integer not null references facts (id) on delete cascade,
    primary key (entity_id, fact_id)
) strict, without rowid;

create index entities_by_fact on fact_entities (fact_id);

-- What a fact claims: facts that fill one frame with values that exclude each other contradict.
create table claims (
    frame   text not null,
    value   text not null,
    fact_id integer not null references facts (id) on delete cascade,
    primary key (frame, value, fact_id)
) strict, without rowid;

create index claims_by_fact on claims (fact_id);

-- A new vector of a known row gets a new stamp, so a process that has read up to a stamp finds the changes.
create table vectors (
    stamp   integer primary key autoincrement,
    fact_id integer not null unique references facts (id) on delete cascade,
    vector  blob not null check (length(vector) = 1024)
) strict;

-- Deleted rows, so that every process drops them from its matrix. No text.
create table removals (
    stamp   integer primary key autoincrement,
    fact_id integer not null
) strict;

-- The turns that stated a fact.
create table sources (
    fact_id    integer not null references facts (id) on delete cascade,
    session_id text not null,
    turn_id    text not null,
    primary key (fact_id, session_id, turn_id)
) strict, without rowid;

-- A forgotten fact that is delivered once more stays forgotten. Hashes, no text.
create table forgotten (
    key text primary key
) strict, without rowid;

-- The queue of conversations whose facts are to be extracted; the text is deleted with the extraction.
create table stretches (
    id       integer primary key,
    key      text not null unique,
    text     text,
    attempts integer not null default 0,
    due      integer not null default 0,
    created  integer not null
) strict;

create index stretches_waiting on stretches (due) where text is not null;
