-- Nodes, the sandboxes on them, and what is to be told to whom.

create table node (
    -- Part of the id of every sandbox that is made on it.
    number smallint generated always as identity (minvalue 1 maxvalue 32767) primary key,
    name text not null unique,
    -- Grows when the node registers; whoever acts under an older one is a ghost.
    epoch bigint not null default 1,
    address text not null,
    state text not null check (state in ('up', 'draining', 'lost')),
    tiers text[] not null,
    slots integer not null check (slots >= 0),
    made_at timestamptz not null default now(),
    -- On the clock of the database, as everything that expires.
    lease_until timestamptz not null
);

create table sandbox (
    id text primary key check (id ~ '^[a-z2-7]{26}$'),
    tenant text not null references tenant,
    state text not null check (state in ('waiting', 'starting', 'running', 'paused', 'ended')),
    -- Grows when it is placed; writes of an earlier placement are refused.
    epoch bigint not null default 0,
    node smallint references node,
    node_epoch bigint,
    template text not null,
    tier text,
    -- What its owner said and what does not change.
    facts jsonb not null default '{}',
    -- A request that is repeated under its key is the same request.
    request_key text,
    request_digest bytea,
    made_at timestamptz not null default now(),
    started_at timestamptz,
    deadline_at timestamptz,
    ended_at timestamptz,
    reason text,
    check ((state in ('waiting')) or node is not null or state = 'ended'),
    check ((state = 'ended') = (ended_at is not null and reason is not null)),
    check ((request_key is null) = (request_digest is null))
);
create unique index sandbox_by_request on sandbox (tenant, request_key)
    where request_key is not null;
create index sandbox_of_tenant on sandbox (tenant, made_at desc, id desc) where state <> 'ended';
create index sandbox_ended on sandbox (tenant, ended_at desc) where state = 'ended';
create index sandbox_on_node on sandbox (node) where state <> 'ended';
create index sandbox_waiting on sandbox (made_at) where state in ('waiting', 'starting');

-- Written with the change that it tells of; published afterwards, at least once.
create table outbox (
    number bigint generated always as identity primary key,
    subject text not null,
    -- Grows when somebody sends it again on purpose.
    generation integer not null default 0,
    body jsonb not null,
    made_at timestamptz not null default now(),
    published_at timestamptz
);
create index outbox_waiting on outbox (number) where published_at is null;
create index outbox_published on outbox (published_at) where published_at is not null;
