-- Transcripts of runs: one row for a run, one for each of its events.

create table run (
    id text primary key check (id ~ '^[a-z2-7]{26}$'),
    tenant text not null references tenant,
    state text not null check (state in ('waiting', 'running', 'paused', 'finished')),
    -- The number of its last event.
    head_seq bigint not null check (head_seq > 0),
    -- Whether somebody should work on it.
    ready boolean not null default true,
    -- The newest format of its events: who does not know it leaves the run alone.
    needs integer not null,
    -- Grows with each lease; whoever writes under an older one is fenced.
    lease_gen bigint not null default 0,
    lease_owner text,
    lease_until timestamptz,
    -- Whose events come before its own, and up to which one.
    parent_run text references run,
    parent_seq bigint check (parent_seq > 0 and parent_seq < head_seq),
    title text not null,
    made_at timestamptz not null default clock_timestamp(),
    check ((parent_run is null) = (parent_seq is null))
)
-- Every event changes the row, and no column that is in an index: there should be
-- room for that on the same page.
with (fillfactor = 60);
create index run_of_tenant on run (tenant, made_at desc, id desc);
create index run_of_tenant_in_state on run (tenant, state, made_at desc, id desc);
create index run_wanted on run (made_at, id) where ready;
create index run_forked on run (parent_run) where parent_run is not null;

create table run_event (
    run_id text not null references run on delete cascade,
    seq bigint not null check (seq > 0),
    kind text not null,
    v integer not null,
    -- Null: it came from outside.
    gen bigint,
    idem_key text,
    -- As it was written: `jsonb` would refuse the character U+0000, which programs
    -- do print, and write numbers in its own way. Null: it is too long, and a blob.
    body json,
    blob_ref bytea check (length(blob_ref) = 32),
    at timestamptz not null default clock_timestamp(),
    primary key (run_id, seq),
    check ((body is null) <> (blob_ref is null))
);
create unique index run_event_by_key on run_event (run_id, idem_key) where idem_key is not null;

-- A run is removed as a whole, or not at all.
create trigger run_event_is_append_only before update or truncate on run_event
    for each statement execute function is_append_only();

create table run_blob (
    run_id text not null references run on delete cascade,
    sha256 bytea not null check (length(sha256) = 32),
    content bytea not null,
    primary key (run_id, sha256)
);
