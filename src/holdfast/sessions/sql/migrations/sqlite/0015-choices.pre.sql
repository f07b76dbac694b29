-- What a person chose for one conversation: a model and a folder to work in other than the usual ones, and the
-- folder of the list that it lies in. A conversation without a row has chosen nothing.
create table conversation_choices (
    root      text primary key check (root <> ''),
    model     text not null default '',
    workspace text not null default '',
    folder    text not null default ''
) strict;

create index conversations_by_folder on conversation_choices (folder) where folder <> '';

-- Folders of the list. New conversations in one work in its workspace.
create table folders (
    name      text primary key check (name <> ''),
    workspace text not null default '',
    created   integer not null
) strict;

-- Texts that a person sends often.
create table own_prompts (
    name    text primary key check (name <> ''),
    text    text not null check (text <> ''),
    changed integer not null
) strict;
