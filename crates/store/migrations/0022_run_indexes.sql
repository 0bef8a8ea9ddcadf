-- Many runs at once: each question that is asked often reads only the rows that it is about.
--
-- A migration of its own: the columns of 0020 lock the table against readers, building an index
-- only against writers.

-- Indexes of a large table may take longer to build than any other statement does.
set local statement_timeout = 0;
set local lock_timeout = '60s';

-- Runs that wait for a worker. A renewed lease changes no column of an index.
create index run_unclaimed on run (tenant, made_at, id) where ready and lease_owner is null;
-- Runs that a worker has. Their rows say if the lease has expired.
create index run_claimed on run (lease_owner) where ready and lease_owner is not null;
-- Unfinished runs, which quotas count. A tenant has many more that are finished.
create index run_unfinished on run (tenant) where state <> 'finished';

-- `run_wanted` stays for replicas of the version before, which search by it. A later release drops it.
