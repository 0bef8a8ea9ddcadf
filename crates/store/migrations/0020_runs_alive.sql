-- Money of a run, in billionths of a dollar, so that quotas need not read its transcript.

set local lock_timeout = '60s';

alter table run
    -- True if it pays for a model. Null: a fork, or from before this version; its transcript says it.
    add column has_model boolean,
    -- Its budget, or a larger one that is asked for; 0: it has none.
    add column allowed_nanos bigint not null default 0,
    add column spent_nanos bigint not null default 0;
-- Older rows have the defaults, so no row needs to be read while the table is locked.
alter table run
    add constraint run_allowed_nanos_check check (allowed_nanos >= 0) not valid,
    add constraint run_spent_nanos_check check (spent_nanos >= 0) not valid;
