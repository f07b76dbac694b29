-- What had come of an answer when it was last saved, and after how many messages of its turn it stands.
alter table turns add column partial text;
alter table turns add column partial_after integer;
