-- What requests to models used: one row for each turn and purpose, stored with the turn's end, and one for each
-- request outside of turns. `cost` is in millionths of a millionth of a dollar; null: the price is not known.
-- A deleted conversation's rows stay without its name: the money is spent.
create table model_usage (
    id            bigint generated always as identity primary key,
    root          text collate "C",
    turn_id       text collate "C",
    purpose       text not null check (purpose <> ''),
    model         text not null,
    requests      bigint not null check (requests > 0),
    input_tokens  bigint not null check (input_tokens >= 0),
    output_tokens bigint not null check (output_tokens >= 0),
    cached_tokens bigint not null check (cached_tokens >= 0),
    cost          bigint check (cost >= 0),
    created       bigint not null
);

create index model_usage_by_time on model_usage (created);

create index model_usage_by_root on model_usage (root);

create index model_usage_by_turn on model_usage (turn_id);
