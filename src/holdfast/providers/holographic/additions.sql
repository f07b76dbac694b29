-- An index that was added to the first schema: forgetting asks for the facts of a turn.
create index if not exists sources_by_turn on sources (session_id, turn_id);
