-- The charge of a sandbox, as in 0005. Neither price nor time makes it fail: it ends where the
-- ledger's numbers do.
create or replace function charge_sandbox() returns trigger language plpgsql as $$
begin
    insert into ledger (tenant, debit, credit, nano_dollars, source, sandbox, detail)
    select new.tenant, 'usage', 'sandboxes', cost, 'sandbox:' || new.id, new.id,
           jsonb_build_object('ran_ms', new.ran_ms, 'second', nano_dollars)
    from (select nano_dollars,
                 least(div(new.ran_ms::numeric * nano_dollars, 1000),
                       9223372036854775807)::bigint as cost
          from price where what = 'sandbox_second') at
    where cost > 0
    on conflict (tenant, source) do nothing;
    return null;
end $$;
