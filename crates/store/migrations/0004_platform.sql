-- What control needs to find things, and to believe nodes in the right order.

-- Counts what a node has said under its epoch: what comes late is not believed.
alter table node add column sequence bigint not null default 0;

-- Where a tenant's templates, volumes and secrets are; chosen when first needed.
alter table tenant add column home smallint references node;

-- On which node something is that has a name of its owner's choice.
create table whereabouts (
    tenant text not null references tenant,
    kind text not null,
    name text not null,
    node smallint not null references node,
    made_at timestamptz not null default now(),
    primary key (tenant, kind, name)
);
