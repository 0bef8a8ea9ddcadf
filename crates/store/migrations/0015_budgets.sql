-- Budgets of operations, which gateways lease in slices.

create table budget (
    operation text not null,
    -- Empty: all tenants together.
    tenant text not null,
    -- Length of a window; 0: one window without an end.
    every_seconds bigint not null check (every_seconds >= 0),
    -- Windows are aligned on the clock of the database.
    window_start timestamptz not null,
    -- Handed out in this window and not given back.
    leased_requests bigint not null check (leased_requests >= 0),
    leased_tokens bigint not null check (leased_tokens >= 0),
    leased_nano_dollars bigint not null check (leased_nano_dollars >= 0),
    -- The slice that was handed out last, for the statement that does so.
    slice_requests bigint not null check (slice_requests >= 0),
    slice_tokens bigint not null check (slice_tokens >= 0),
    slice_nano_dollars bigint not null check (slice_nano_dollars >= 0),
    primary key (operation, tenant, every_seconds)
);

-- Slices that were not given back: their gateways spend them, or died with them.
create table budget_slice (
    id bigint generated always as identity primary key,
    operation text not null,
    tenant text not null,
    every_seconds bigint not null,
    window_start timestamptz not null,
    -- The epoch of the gateway, and its node. Null: a replica of control.
    gateway text not null,
    node smallint,
    requests bigint not null check (requests >= 0),
    tokens bigint not null check (tokens >= 0),
    nano_dollars bigint not null check (nano_dollars >= 0),
    leased_at timestamptz not null default now(),
    foreign key (operation, tenant, every_seconds) references budget on delete cascade
);
create index slice_of_budget on budget_slice (operation, tenant, every_seconds, window_start);

-- The start of the window that is now.
create function budget_window(every_seconds bigint) returns timestamptz language sql stable as $$
    select case when every_seconds = 0 then timestamptz 'epoch'
           else to_timestamp(floor(extract(epoch from now()) / every_seconds) * every_seconds) end
$$;

-- The slice of a budget of which so much is leased. Null: less than `smallest` remains. A budget
-- without a limit needs none. The gateways' own code computes the same (`BudgetLimit::slice`).
create function budget_slice_size(bound bigint, leased bigint, smallest bigint, largest bigint,
                                  divisor bigint)
returns bigint language sql immutable as $$
    select case when bound is null then 0
           when bound - leased < smallest then null
           else greatest(smallest, least(largest, (bound - leased) / divisor)) end
$$;
