-- Charges have quantities, and belong to a run, a turn and a call. What costs nothing is charged
-- too: its quantities count.
--
-- The table is written anew, under its lock. That may take longer than any other statement does.
set local statement_timeout = 0;
set local lock_timeout = '60s';

alter table ledger
    drop constraint ledger_nano_dollars_check,
    add constraint ledger_nano_dollars_check check (nano_dollars >= 0),
    add column run text,
    add column turn bigint,
    -- The execution id: the call of the run.
    add column call text,
    add column operation text,
    add column model text,
    -- When the charged request began, within a day of when it was charged; none: when it was
    -- charged. Sandboxes are charged at their end.
    add column began_at timestamptz,
    -- Kinds of tokens never overlap.
    add column input_tokens bigint not null default 0 check (input_tokens >= 0),
    add column cache_read_tokens bigint not null default 0 check (cache_read_tokens >= 0),
    add column cache_write_tokens bigint not null default 0 check (cache_write_tokens >= 0),
    add column output_tokens bigint not null default 0 check (output_tokens >= 0),
    add column egress_bytes bigint not null default 0 check (egress_bytes >= 0),
    add column sandbox_ms bigint not null
        generated always as (case when detail ->> 'ran_ms' ~ '^[0-9]{1,18}$'
                             then (detail ->> 'ran_ms')::bigint else 0 end) stored,
    -- No usage was heard of: what was reserved was charged.
    add column is_estimated boolean not null default false;

create index ledger_of_time on ledger (tenant, coalesce(began_at, at));
create index ledger_of_run on ledger (tenant, run) where run is not null;

insert into price (what, nano_dollars) values ('egress_gigabyte', 0);

-- The charge of a sandbox, as in 0008, also where it costs nothing. The sandbox of a run is made
-- under a key that names the run; the run counts if the tenant has it.
create or replace function charge_sandbox() returns trigger language plpgsql as $$
begin
    insert into ledger (tenant, debit, credit, nano_dollars, source, sandbox, run, detail)
    select new.tenant, 'usage', 'sandboxes', cost, 'sandbox:' || new.id, new.id,
           (select u.id from run u where u.tenant = new.tenant
            and u.id = substring(new.request_key from '^run-([a-z0-9]{26})-[0-9]+$')),
           jsonb_build_object('ran_ms', new.ran_ms, 'second', nano_dollars)
    from (select nano_dollars,
                 least(div(new.ran_ms::numeric * nano_dollars, 1000),
                       9223372036854775807)::bigint as cost
          from price where what = 'sandbox_second') at
    where new.ran_ms > 0
    on conflict (tenant, source) do nothing;
    return null;
end $$;
