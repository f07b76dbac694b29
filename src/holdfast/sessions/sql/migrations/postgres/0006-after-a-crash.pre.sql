-- Which process ran a turn last, by the name under which it holds conversations, and how often the turn was
-- resumed after a crash. A turn that was recorded whole was run by nobody here.
alter table turns add column holder text collate "C";
alter table turns add column resumed bigint not null default 0 check (resumed >= 0);
