-- Calls and connections with the run, the turn and the call that they belong to. Nothing ever wrote
-- the tables that had these names.
drop table call;
drop table connection;

create table call (
    -- Made by the process that wrote the row: a row that is sent twice is stored once.
    id text primary key,
    tenant text not null references tenant,
    sandbox text not null,
    run text,
    turn bigint,
    -- The execution id: the call of the run.
    call text,
    began_at timestamptz not null,
    -- On the clock of the database: rows are forgotten so long after it.
    stored_at timestamptz not null default now(),
    micros bigint not null check (micros >= 0),
    -- As its machine counts.
    number bigint not null,
    kind text not null check (kind in ('process', 'cell')),
    is_ok boolean not null,
    reason text not null,
    exit_code integer,
    cpu_micros bigint not null check (cpu_micros >= 0),
    peak_bytes bigint,
    output_bytes bigint not null check (output_bytes >= 0),
    -- Files that changed, and whether these are not all.
    files jsonb not null default '[]',
    is_cut boolean not null default false,
    -- A node sent it. Else control wrote it.
    of_node boolean not null,
    check ((run is null) = (turn is null)),
    check (run is not null or call is null)
);
create index call_of_run on call (tenant, run, turn) where run is not null;
-- To forget what is old. Rows come in the order of their time.
create index call_stored_at on call using brin (stored_at);

create table connection (
    id text primary key,
    tenant text not null references tenant,
    sandbox text not null,
    run text,
    turn bigint,
    call text,
    began_at timestamptz not null,
    -- On the clock of the database: rows are forgotten so long after it.
    stored_at timestamptz not null default now(),
    micros bigint not null check (micros >= 0),
    -- As its sandbox counts.
    sequence bigint not null,
    kind text not null,
    decision text not null,
    reason text not null,
    host text,
    port integer,
    operation text,
    method text,
    path text,
    status integer,
    bytes_out bigint not null check (bytes_out >= 0),
    bytes_in bigint not null check (bytes_in >= 0),
    charge jsonb,
    -- A process that the call left behind made it.
    is_late boolean not null default false,
    -- A node sent it. Else control wrote it.
    of_node boolean not null,
    check ((run is null) = (turn is null)),
    check (run is not null or call is null)
);
create index connection_of_run on connection (tenant, run, turn) where run is not null;
create index connection_stored_at on connection using brin (stored_at);
