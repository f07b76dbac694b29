-- serves: 0015
-- A second wall between scopes: while the setting `holdfast.scope` names one, its transaction reads rows of that scope
-- alone. The setting is empty for the host, which serves all, and set for what a request of an account reads
-- (`sessions/postgres/row_security.py`). PostgreSQL does not ask these policies for the owner of a table.
create function within_limit(row_scope text) returns boolean language sql stable as
    $$ select coalesce(current_setting('holdfast.scope', true), '') in ('', row_scope) $$;

create function session_within_limit(wanted text) returns boolean language sql stable as
    $$ select coalesce(current_setting('holdfast.scope', true), '') = ''
           or exists (select 1 from sessions s where s.id = wanted) $$;

create function turn_within_limit(wanted text) returns boolean language sql stable as
    $$ select coalesce(current_setting('holdfast.scope', true), '') = ''
           or exists (select 1 from turns t where t.id = wanted) $$;

alter table sessions enable row level security;
create policy everybody on sessions using (true) with check (true);
create policy one_scope on sessions as restrictive for select using (within_limit(scope));

alter table turns enable row level security;
create policy everybody on turns using (true) with check (true);
create policy one_scope on turns as restrictive for select using (session_within_limit(session_id));

alter table messages enable row level security;
create policy everybody on messages using (true) with check (true);
create policy one_scope on messages as restrictive for select using (session_within_limit(session_id));

alter table inbox enable row level security;
create policy everybody on inbox using (true) with check (true);
create policy one_scope on inbox as restrictive for select using (session_within_limit(session_id));

alter table outbox enable row level security;
create policy everybody on outbox using (true) with check (true);
create policy one_scope on outbox as restrictive for select using (session_within_limit(session_id));

alter table chat_rooms enable row level security;
create policy everybody on chat_rooms using (true) with check (true);
create policy one_scope on chat_rooms as restrictive for select using (session_within_limit(session_id));

alter table chat_events enable row level security;
create policy everybody on chat_events using (true) with check (true);
create policy one_scope on chat_events as restrictive for select using (session_within_limit(session_id));

alter table chat_posts enable row level security;
create policy everybody on chat_posts using (true) with check (true);
create policy one_scope on chat_posts as restrictive for select using (session_within_limit(session_id));

alter table schedules enable row level security;
create policy everybody on schedules using (true) with check (true);
create policy one_scope on schedules as restrictive for select using (within_limit(scope));

alter table model_usage enable row level security;
create policy everybody on model_usage using (true) with check (true);
create policy one_scope on model_usage as restrictive for select using (session_within_limit(root));

alter table conversation_settings enable row level security;
create policy everybody on conversation_settings using (true) with check (true);
create policy one_scope on conversation_settings as restrictive for select using (session_within_limit(root));

alter table conversation_choices enable row level security;
create policy everybody on conversation_choices using (true) with check (true);
create policy one_scope on conversation_choices as restrictive for select using (session_within_limit(root));

alter table deletions enable row level security;
create policy everybody on deletions using (true) with check (true);
create policy one_scope on deletions as restrictive for select using (session_within_limit(root));

alter table asks enable row level security;
create policy everybody on asks using (true) with check (true);
create policy one_scope on asks as restrictive for select using (turn_within_limit(turn_id));

alter table file_changes enable row level security;
create policy everybody on file_changes using (true) with check (true);
create policy one_scope on file_changes as restrictive for select using (turn_within_limit(turn_id));
