-- What was chosen for a whole conversation, by the id of its first session. `titled_by` says who decided about its
-- title last: what a person decided, no model changes.
create table conversation_settings (
    root         text primary key references sessions (id) on delete cascade,
    tool_profile text check (tool_profile <> ''),
    titled_by    text check (titled_by in ('person', 'model'))
) strict, without rowid;
