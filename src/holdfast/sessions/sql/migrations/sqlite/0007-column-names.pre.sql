-- Columns get names that say what they hold. SQLite renames them in triggers and views as well.
alter table sessions rename column spoken to last_active;
alter table turns rename column account to timeline;
alter table turns rename column handover to provider_messages;
alter table turns rename column resumed to resume_count;
alter table asks rename column asked to event;

-- No statement reads it, and each renewal of a lease writes it.
drop index leases_in_force;

drop index sessions_by_spoken;
create index sessions_by_last_active on sessions (last_active desc, id desc, archived, pinned, source)
    where listed = 1;
