-- Answers of models whose workers died, or lost the database, before they wrote the event. The
-- replica that kept an answer on its disk puts it here, where the run's next worker finds it: see
-- docs/design/0053-kept-answers.md.

set local lock_timeout = '60s';

create table run_answer (
    run_id text not null references run on delete cascade,
    -- The number of the request's event.
    asked bigint not null check (asked > 0),
    -- As its worker kept it; only workers read it.
    answer bytea not null,
    kept_at timestamptz not null default now(),
    primary key (run_id, asked)
);
