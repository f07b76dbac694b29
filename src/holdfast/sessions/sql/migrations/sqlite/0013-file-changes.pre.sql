-- What the tools of a turn changed in the file system. A hash names the content that was at the path, as a file in a
-- folder of this installation; null: there was nothing. Paths are JSON, because a file's name may be no text.
-- `settled` is 0 until it is known what a command left at the path.
create table file_changes (
    id          integer primary key autoincrement,
    turn_id     text not null references turns (id),
    workspace   text not null check (workspace <> ''),
    path        text not null check (path <> ''),
    tool        text not null,
    before_hash text check (before_hash <> ''),
    before_mode integer,
    after_hash  text check (after_hash <> ''),
    after_mode  integer,
    settled     integer not null check (settled in (0, 1)),
    undone      integer,
    created     integer not null
) strict;

create index file_changes_by_turn on file_changes (turn_id);
