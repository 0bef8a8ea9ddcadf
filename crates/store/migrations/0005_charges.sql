-- A sandbox is charged for the time that it ran, once, when it ends.

create table price (
    what text primary key,
    -- Billionths of a dollar; nothing is charged for what costs nothing.
    nano_dollars bigint not null check (nano_dollars >= 0)
);
insert into price (what, nano_dollars) values ('sandbox_second', 14000);

-- How long it had run when that was written down, by its node's own clock.
alter table sandbox add column ran_ms bigint not null default 0 check (ran_ms >= 0);
alter table sandbox add column ran_at timestamptz;

-- How long it has run, as far as anybody can say who cannot ask its node: not
-- longer than the node was believed to be there.
create function ran(s sandbox) returns bigint language sql stable as $$
    select s.ran_ms + case when s.state <> 'running' then 0 else
        greatest(0, coalesce((1000 * extract(epoch from
            least(now(), (select lease_until from node where number = s.node))
            - coalesce(s.ran_at, s.started_at)))::bigint, 0)) end
$$;

create function charge_sandbox() returns trigger language plpgsql as $$
begin
    insert into ledger (tenant, debit, credit, nano_dollars, source, sandbox, detail)
    select new.tenant, 'usage', 'sandboxes', cost, 'sandbox:' || new.id, new.id,
           jsonb_build_object('ran_ms', new.ran_ms, 'second', nano_dollars)
    from (select nano_dollars, new.ran_ms * nano_dollars / 1000 as cost
          from price where what = 'sandbox_second') at
    where cost > 0
    on conflict (tenant, source) do nothing;
    return null;
end $$;

-- However it ends, and whoever writes that down.
create trigger sandbox_is_charged after update of state on sandbox
    for each row when (new.state = 'ended' and old.state <> 'ended')
    execute function charge_sandbox();
