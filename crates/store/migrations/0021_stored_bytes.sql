-- Bytes that are kept for tenants are charged once an hour, from what was seen last.

set local lock_timeout = '60s';

alter table ledger
    -- Bytes that were kept, for the hour of `began_at`.
    add column stored_byte_hours bigint not null default 0;
-- Older rows have the default, so no row needs to be read while the table is locked.
alter table ledger
    add constraint ledger_stored_byte_hours_check check (stored_byte_hours >= 0) not valid;

-- Of 10^9 bytes for an hour.
insert into price (what, nano_dollars) values ('stored_gigabyte_hour', 0);

-- The last word of each node on what it keeps.
create table stored_sample (
    node smallint not null references node on delete cascade,
    tenant text not null references tenant,
    kind text not null check (kind in ('volumes', 'checkpoints')),
    bytes bigint not null check (bytes > 0),
    sampled_at timestamptz not null default now(),
    primary key (node, tenant, kind)
);

-- Hours that were charged, or that a replica of control has leased to charge them. Replicas without
-- a bucket cannot list datasets, so these are a part of their own.
create table stored_hour (
    hour timestamptz not null,
    part text not null check (part in ('tables', 'datasets')),
    lease_until timestamptz not null,
    charged_at timestamptz,
    primary key (hour, part)
);

-- True for the start of a budget's window that is further ahead than a window is long: the clock of
-- the database was wrong once. A window without an end is never ahead.
create function budget_window_is_ahead(held timestamptz, every_seconds bigint)
returns boolean language sql stable as $$
    select held > budget_window(every_seconds) + every_seconds * interval '1 second'
$$;
