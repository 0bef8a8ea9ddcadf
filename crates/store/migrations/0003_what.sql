-- What was run, what it reached, and what it cost.

create table call (
    sandbox text not null references sandbox,
    number bigint not null,
    kind text not null check (kind in ('process', 'cell')),
    began_at timestamptz not null,
    ended_at timestamptz,
    reason text,
    exit_code integer,
    cpu_micros bigint not null default 0 check (cpu_micros >= 0),
    peak_bytes bigint not null default 0 check (peak_bytes >= 0),
    primary key (sandbox, number),
    check ((ended_at is null) = (reason is null))
);

create table connection (
    sandbox text not null references sandbox,
    sequence bigint not null,
    at timestamptz not null,
    call bigint,
    decision text not null,
    -- The row as the gateway wrote it.
    row jsonb not null,
    primary key (sandbox, sequence)
);

-- Each row takes from one account and gives to another, so the sum of all
-- accounts is always nothing. Amounts are billionths of a dollar.
create table ledger (
    number bigint generated always as identity primary key,
    at timestamptz not null default now(),
    tenant text not null references tenant,
    debit text not null,
    credit text not null check (credit <> debit),
    nano_dollars bigint not null check (nano_dollars > 0),
    -- What is charged for. The same thing is never charged twice.
    source text not null,
    sandbox text,
    detail jsonb not null default '{}',
    unique (tenant, source)
);
create index ledger_of_debit on ledger (tenant, debit);

create trigger ledger_is_append_only before update or delete or truncate on ledger
    for each statement execute function is_append_only();
