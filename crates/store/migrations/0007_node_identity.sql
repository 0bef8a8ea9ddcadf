-- Who a node is: a key that it enrolled once under its name. And the authorities that
-- issue certificates and sign requests, for all replicas of control.

create table authority (
    generation integer generated always as identity (minvalue 1) primary key,
    -- The CA's certificate (DER), which is no secret.
    certificate bytea not null,
    -- The CA's key and the signing key, encrypted with control's secret and bound to
    -- the certificate: this table alone opens nothing, and a row that is put in without
    -- the secret is trusted by nobody.
    sealed bytea not null,
    made_at timestamptz not null default now(),
    -- From then on it issues and signs. It is trusted before, so that every node has
    -- heard of it by then.
    active_from timestamptz not null default now(),
    dropped_at timestamptz
);

-- The Ed25519 key that the node enrolled with; none: nobody has enrolled yet.
alter table node add column public_key bytea check (length(public_key) = 32);
alter table node add column revoked_at timestamptz;
-- When the last certificate that was issued to it expires.
alter table node add column certificate_until timestamptz;

-- One-time tokens; only their SHA-256 is here.
create table enrolment (
    digest bytea primary key check (length(digest) = 32),
    node smallint not null references node,
    made_at timestamptz not null default now(),
    expires_at timestamptz not null,
    used_at timestamptz,
    -- The key that was enrolled with it. Who did not hear the answer may ask again
    -- with the same key.
    used_by bytea check (length(used_by) = 32),
    check ((used_at is null) = (used_by is null))
);
create index enrolment_of_node on enrolment (node);
