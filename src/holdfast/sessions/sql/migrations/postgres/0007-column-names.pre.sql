-- Columns get names that say what they hold. Only the body of the trigger's function is not renamed by that.
alter table sessions rename column spoken to last_active;
alter table turns rename column account to timeline;
alter table turns rename column handover to provider_messages;
alter table turns rename column resumed to resume_count;
alter table messages rename column before to previous_seq;
alter table messages rename column words to search_vector;
alter table asks rename column asked to event;

-- No statement reads it, and each renewal of a lease writes it.
drop index leases_in_force;

alter index sessions_by_spoken rename to sessions_by_last_active;

drop trigger session_placed on sessions;
drop function place_session();

create function add_to_conversation() returns trigger language plpgsql as $function$
begin
    new.changed := new.started;
    if new.relation = 'continuation' then
        update sessions p set listed = 0 from sessions was
         where p.id = new.parent and was.id = p.id
        returning p.root, p.last_active, p.pinned, p.archived, was.listed
             into new.root, new.last_active, new.pinned, new.archived, new.listed;
    else
        new.root := new.id;
        new.last_active := new.started;
        new.listed := case when new.relation = 'delegate' then 0 else 1 end;
    end if;
    return new;
end
$function$;

create trigger session_added before insert on sessions for each row execute function add_to_conversation();
