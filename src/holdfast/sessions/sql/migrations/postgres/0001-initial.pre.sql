-- The first schema. Times are bigint microseconds since the epoch, from the store's own clock.
-- Everything stands in the first schema of the search path. Names sort by bytes, as on SQLite.

create table meta (
    key   text collate "C" primary key,
    value text not null
);

-- The store's one clock. Tests put another in its place.
create function store_now() returns bigint
    language sql volatile parallel safe
    return (extract(epoch from clock_timestamp()) * 1000000)::bigint;

create table sessions (
    id                   text collate "C" primary key check (id <> ''),
    parent               text collate "C" references sessions (id),
    relation             text check (relation in ('continuation', 'branch', 'delegate')),
    source               text collate "C" not null,
    title                text,
    started              bigint not null,
    ended                bigint,
    end_reason           text,
    generation           bigint not null default 0,
    committed_generation bigint not null default 0,
    check ((parent is null) = (relation is null)),
    check ((ended is null) = (end_reason is null)),
    check (committed_generation between 0 and generation)
);

-- A session is never forked: one continuation per parent, lock or no lock.
create unique index one_continuation on sessions (parent) where relation = 'continuation';
create index sessions_by_parent on sessions (parent) where parent is not null;
create index uncommitted_sessions on sessions (id) where generation > committed_generation;

create table turns (
    id         text collate "C" primary key check (id <> ''),
    session_id text collate "C" not null references sessions (id),
    state      text not null check (state in ('running', 'completed', 'interrupted', 'failed')),
    started    bigint not null,
    ended      bigint,
    reason     text,
    generation bigint,
    -- The messages as a library handed them over, as JSON; kept while the turn is owed to somebody.
    handover   text,
    check ((state = 'running') = (ended is null)),
    check ((state = 'completed') = (generation is not null))
);

create unique index one_running_turn on turns (session_id) where state = 'running';
create unique index one_turn_per_generation on turns (session_id, generation) where generation is not null;
create index turns_by_session on turns (session_id);
create index running_turns on turns (started, id) where state = 'running';

-- Words as the word index sees them: lower case and without diacritics, whatever the database's locale.
do $do$
declare
    -- Full Unicode case mapping comes with PostgreSQL 17, or with ICU. Without either the locale decides.
    casing name := coalesce(
        (select collname from pg_collation where collname = 'pg_c_utf8' and collprovider = 'b' limit 1),
        (select collname from pg_collation where collname = 'und-x-icu' and collprovider = 'i' limit 1),
        'default');
begin
    execute format($function$
        create function folded(words text) returns text
            language sql immutable strict parallel safe
            return case
                when octet_length(words) = length(words) then lower(words)
                else lower(normalize(regexp_replace(normalize(words, NFD), '[\u0300-\u036f]+', '', 'g'), NFC)
                           collate pg_catalog.%I)
            end
    $function$, casing);
end
$do$;

-- Punctuation and symbols turned into spaces, so that paths, hosts and hyphens fall into words. Each
-- character stays where it was.
create function spaced(words text) returns text
    language sql immutable strict parallel safe
    return regexp_replace(
        words,
        '[\u0001-/:-@[-`{-\u00a9\u00ab-\u00b1\u00b4\u00b6-\u00b8\u00bb\u00bf\u00d7\u00f7\u2000-\u206f'
        '\u20a0-\u20bf\u2190-\u2bff\u3000-\u3004\u3007-\u3020\u3030\ufe00-\ufe0f\uff00-\uff0f\ufffd'
        '\U0001f000-\U0001faff]',
        ' ', 'g');

create text search dictionary message_stem (template = snowball, language = 'english');
create text search configuration message_words (parser = pg_catalog.default);
alter text search configuration message_words
    add mapping for asciiword, word, numword, asciihword, hword, numhword, hword_asciipart, hword_part,
        hword_numpart, int, uint, float, sfloat, version, email, host, url, url_path, file
    with message_stem;

-- The best piece of a text, its matches between the marks U+0002 and U+0003. The headline is cut from the
-- words as the index sees them; the answer is what stands at the same place in the text.
create function snippet(content text, query tsquery) returns text
    language sql immutable strict parallel safe
    return (
        with shown as materialized (
            select translate(left(content, 200000), e'\x02\x03', '  ') as text
        ), seen as materialized (
            select text, spaced(case when length(folded(text)) = length(text) then folded(text) else text end)
                         as plain
              from shown
        ), cut as materialized (
            select text, plain, ts_headline('message_words', plain, query,
                       e'StartSel="\x02", StopSel="\x03", '
                       'MaxFragments=1, MaxWords=24, MinWords=12, ShortWord=0') as headline
              from seen
        ), placed as materialized (
            select text, headline, greatest(strpos(plain, translate(headline, e'\x02\x03', '')), 1) as start,
                   length(translate(headline, e'\x02\x03', '')) as size
              from cut
        ), pieces as materialized (
            select n, length(piece) as size, sum(length(piece)) over (order by n) - length(piece) as skipped
              from placed, regexp_split_to_table(headline, e'[\x02\x03]') with ordinality split (piece, n)
        )
        -- A few characters more show the text to its edge.
        select case when start > 20 then '…' else left(text, start - 1) end
               || string_agg(
                      case when n % 2 = 0 then e'\x02' else '' end
                      || substr(text, start + skipped::int, pieces.size)
                      || case when n % 2 = 0 then e'\x03' else '' end, '' order by n)
               || case when length(text) - start - placed.size >= 20 then '…'
                       else substr(text, start + placed.size) end
          from placed, pieces group by text, start, placed.size
    );

create table messages (
    id         bigint generated always as identity primary key,
    session_id text collate "C" not null references sessions (id),
    seq        bigint not null check (seq >= 0),
    turn_id    text collate "C" references turns (id),
    role       text collate "C" not null,
    content    text,
    extra      text,
    created    bigint not null,
    carried    smallint not null default 0 check (carried in (0, 1)),
    -- Dense sequences: a message stands on the one before it.
    before     bigint generated always as (nullif(seq, 0) - 1) stored,
    -- A tsvector holds 1 MB: 200,000 characters of any text fit. Carried messages are copies of ones
    -- already indexed, so search finds each text once.
    words      tsvector generated always as (
                   case when carried = 0
                        then to_tsvector('message_words', left(spaced(folded(left(content, 200000))), 200000))
                   end) stored,
    unique (session_id, seq),
    foreign key (session_id, before) references messages (session_id, seq),
    check (content is not null or extra is not null)
);

create index messages_by_turn on messages (turn_id) where turn_id is not null;
-- Without the pending list no append pays for the ones before it.
create index message_index on messages using gin (words) with (fastupdate = off);

create table inbox (
    id           bigint generated always as identity primary key,
    session_id   text collate "C" not null references sessions (id),
    mode         text not null check (mode in ('queue', 'steer', 'interrupt')),
    message      text not null,
    state        text not null default 'waiting' check (state in ('waiting', 'taken', 'withdrawn')),
    turn_id      text collate "C" references turns (id),
    addressed_to text collate "C" references turns (id),
    key          text collate "C" unique,
    created      bigint not null,
    check ((state = 'taken') = (turn_id is not null))
);

create index waiting_messages on inbox (session_id, id) where state = 'waiting';

create table outbox (
    id         bigint generated always as identity primary key,
    session_id text collate "C" not null references sessions (id),
    turn_id    text collate "C" not null references turns (id),
    provider   text collate "C" not null check (provider <> ''),
    state      text not null default 'owed'
               check (state in ('owed', 'claimed', 'delivered', 'set_aside', 'dropped')),
    attempts   bigint not null default 0 check (attempts >= 0),
    -- When the row may be claimed: now, after a retry's delay, or when the present claim's lease runs out.
    due        bigint not null,
    lease      text collate "C",
    last_error text,
    created    bigint not null,
    settled    bigint,
    unique (turn_id, provider),
    check ((state = 'claimed') = (lease is not null)),
    check ((settled is not null) = (state in ('delivered', 'dropped')))
);

create index open_deliveries on outbox (provider, session_id, id) where state in ('owed', 'claimed');
create index deliveries_set_aside on outbox (provider, id) where state = 'set_aside';
create index claims on outbox (lease, id) where state = 'claimed';

create table leases (
    name    text collate "C" primary key check (name <> ''),
    holder  text,
    token   bigint not null check (token > 0),
    expires bigint not null
);
