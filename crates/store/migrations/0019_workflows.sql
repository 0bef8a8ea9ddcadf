-- Workflows: append-only events under a lease, like those of runs. See docs/design/0045-workflows.md.

create table workflow (
    id text primary key check (id ~ '^wf_[0-9a-f]{32}$'),
    tenant text not null references tenant,
    name text not null,
    made_at timestamptz not null default now(),
    events bigint not null default 1,
    -- The fencing token: it grows with each claim.
    lease_gen bigint not null default 0,
    lease_owner text,
    lease_until timestamptz,
    is_cancelled boolean not null default false,
    outcome text
);
create index workflow_of_tenant on workflow (tenant, made_at desc);
create index workflow_unfinished on workflow (made_at) where outcome is null;

create table workflow_event (
    workflow text not null references workflow on delete cascade,
    seq bigint not null,
    -- JSON as the worker wrote it.
    body text not null,
    at timestamptz not null default now(),
    primary key (workflow, seq)
);
