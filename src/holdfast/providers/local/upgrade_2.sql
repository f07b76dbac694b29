-- From version 1. Vectors of float16 are turned into bytes when the file of codes is made (`vectors.py`).

insert into meta (key, value) values ('store', lower(hex(randomblob(16))));

-- The stamps of the vectors of float16 that are left.
insert into meta (key, value) select 'float16', '0 ' || max(stamp) from vectors having max(stamp) > 0;

drop trigger passage_removed;

create trigger passage_removed after delete on passages begin
    insert into passage_index (passage_index, rowid, text, day, unspaced)
    values ('delete', old.id, old.text, old.day, old.unspaced);
    delete from vectors where passage_id = old.id;
    delete from unembedded where passage_id = old.id;
end;

drop table removals;

create table erased (
    passage_id integer primary key
) strict;

create trigger vector_removed after delete on vectors begin
    insert into erased (passage_id) values (old.passage_id) on conflict do nothing;
end;
