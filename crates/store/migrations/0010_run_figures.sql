-- Sums of what runs did, by tenant and span of ten seconds: for tables of the last day, which
-- would have to read every transcript of that day otherwise. Each writer has rows of its own
-- and says the whole sum, so a row that is written again changes nothing.
create table run_figure (
    tenant text not null references tenant,
    -- Where the span begins.
    at timestamptz not null,
    name text not null,
    writer text not null,
    value bigint not null check (value >= 0),
    primary key (tenant, at, name, writer)
);
-- To forget what is old. Rows come in the order of their time.
create index run_figure_at on run_figure using brin (at);
