-- Who owns things, how they prove it, and how much they may have.

create table tenant (
    name text primary key check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
    -- The weakest wall that its sandboxes may have; null: the server's.
    floor text,
    made_at timestamptz not null default now(),
    -- Nothing of it works from then on.
    closed_at timestamptz
);

create table key (
    -- SHA-256 of the key; the key itself is nowhere.
    hash bytea primary key check (length(hash) = 32),
    id uuid not null unique default gen_random_uuid(),
    tenant text not null references tenant,
    label text not null default '',
    scopes text[] not null,
    made_at timestamptz not null default now(),
    expires_at timestamptz,
    revoked_at timestamptz
);
create index key_of_tenant on key (tenant, made_at);

-- One row a tenant: its lock is the whole of admission. `used` moves in the
-- transaction that makes or ends a sandbox.
create table quota (
    tenant text primary key references tenant,
    sandboxes integer not null check (sandboxes >= 0),
    longest_life_seconds integer not null check (longest_life_seconds > 0),
    used integer not null default 0 check (used >= 0)
);

-- What was done to the platform, and by whom. Never changed.
create table audit (
    number bigint generated always as identity primary key,
    at timestamptz not null default now(),
    tenant text,
    actor text not null,
    action text not null,
    subject text not null,
    detail jsonb not null default '{}'
);
create index audit_of_tenant on audit (tenant, number);

create function is_append_only() returns trigger language plpgsql as $$
begin
    raise exception 'rows of % are never changed', tg_table_name;
end $$;

create trigger audit_is_append_only before update or delete or truncate on audit
    for each statement execute function is_append_only();
