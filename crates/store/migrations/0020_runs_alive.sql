-- Many runs at once: each question that is asked often reads only the rows that it is about.

-- Indexes of a large table may take longer to build than any other statement does.
set local statement_timeout = 0;
set local lock_timeout = '60s';

-- Runs that wait for a worker. A renewed lease changes no column of an index.
create index run_unclaimed on run (tenant, made_at, id) where ready and lease_owner is null;
-- Runs that a worker has. Their rows say if the lease has expired.
create index run_claimed on run (lease_owner) where ready and lease_owner is not null;
drop index run_wanted;
-- Unfinished runs, which quotas count. A tenant has many more that are finished.
create index run_unfinished on run (tenant) where state <> 'finished';

-- Money of a run, in billionths of a dollar, so that quotas need not read its transcript.
alter table run
    -- True if it pays for a model. Null: a fork, or from before this version; its transcript says it.
    add column has_model boolean,
    -- Its budget, or a larger one that is asked for; 0: it has none.
    add column allowed_nanos bigint not null default 0 check (allowed_nanos >= 0),
    add column spent_nanos bigint not null default 0 check (spent_nanos >= 0);
