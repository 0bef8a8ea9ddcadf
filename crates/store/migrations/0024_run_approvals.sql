-- Runs whose tool calls wait for an approval. A row is here while its run waits.

set local lock_timeout = '60s';

create table run_approval (
    run_id text primary key references run on delete cascade,
    tenant text not null,
    -- From then on, the call is denied.
    until timestamptz not null
);
create index run_approval_by_tenant on run_approval (tenant, until);
create index run_approval_by_time on run_approval (until);
