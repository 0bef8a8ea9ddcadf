-- Webhooks of tenants, and the messages to them. A message is written in the transaction of the
-- change that it tells of, by the triggers below: see docs/design/0042-webhooks.md.

create table webhook (
    id text primary key check (id ~ '^wh_[0-9a-f]{32}$'),
    tenant text not null references tenant,
    url text not null,
    kinds text[] not null check (cardinality(kinds) > 0),
    secret bytea not null,
    -- The secret before the last rotation, and the end of its validity.
    previous_secret bytea,
    previous_until timestamptz,
    made_at timestamptz not null default now(),
    -- The first failed attempt since the last one that succeeded.
    failing_since timestamptz,
    disabled text check (disabled in ('failing', 'gone', 'queue_full'))
);
create index webhook_of_tenant on webhook (tenant, made_at);

create table webhook_delivery (
    number bigint generated always as identity primary key,
    -- No foreign key: its check would wait for a request that deletes the webhook, and then fail
    -- the change of state. Messages of deleted webhooks are removed later.
    webhook text not null,
    tenant text not null,
    message text not null,
    kind text not null,
    -- As it is signed and sent.
    body text not null,
    state text not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
    -- Grows with each claim: a result of an earlier claim is refused.
    attempts integer not null default 0,
    made_at timestamptz not null default now(),
    -- The time of the next attempt; of a message that is being sent, the end of its lease.
    due_at timestamptz not null default now(),
    ended_at timestamptz,
    status integer,
    error text,
    unique (webhook, message)
);
create index webhook_delivery_due on webhook_delivery (webhook, due_at) where state = 'waiting';
create index webhook_delivery_of on webhook_delivery (webhook, number desc);
create index webhook_delivery_ended on webhook_delivery (ended_at) where ended_at is not null;

-- The outcome of a `finished` event, or `question` of a `paused` one that asks. A body of more
-- than 8 KiB is a blob, which triggers cannot read.
alter table run_event add column fact text;

-- Queues a message for every webhook of a tenant that wants its kind. It takes no lock, counts
-- nothing and checks nothing, so that it neither delays nor fails the change of state. Workers
-- disable webhooks whose queue is full.
create function announce(of_tenant text, of_kind text, facts json) returns void
language sql as $$
    insert into webhook_delivery (webhook, tenant, message, kind, body)
    select id, of_tenant, 'msg_' || replace(gen_random_uuid()::text, '-', ''), of_kind,
           json_build_object(
               'type', of_kind,
               'timestamp', to_char(clock_timestamp() at time zone 'utc',
                                    'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
               'data', facts)::text
    from webhook
    where tenant = of_tenant and disabled is null and of_kind = any(kinds)
$$;

create function announce_sandbox() returns trigger language plpgsql as $$
begin
    if new.state = 'running' and old.state = 'paused' then
        perform announce(new.tenant, 'sandbox.resumed', json_build_object('sandbox', new.id));
    elsif new.state = 'running' then
        perform announce(new.tenant, 'sandbox.created', json_build_object('sandbox', new.id));
    elsif new.state = 'paused' then
        perform announce(new.tenant, 'sandbox.paused', json_build_object('sandbox', new.id));
    else
        -- It was made and ended before its node spoke of it.
        if old.state = 'starting' and new.reason = 'killed' then
            perform announce(new.tenant, 'sandbox.created', json_build_object('sandbox', new.id));
        end if;
        perform announce(new.tenant, 'sandbox.ended',
                         json_build_object('sandbox', new.id, 'reason', new.reason));
    end if;
    return null;
end $$;

create trigger sandbox_is_announced after update of state on sandbox
    for each row when (new.state <> old.state and new.state in ('running', 'paused', 'ended'))
    execute function announce_sandbox();

-- An older writer gives no fact: then the event is read as text, because a body may hold U+0000,
-- which operators on json refuse.
create function announce_run() returns trigger language plpgsql as $$
declare
    of_tenant text := (select tenant from run where id = new.run_id);
    outcome text;
begin
    case new.kind
    when 'paused' then
        perform announce(
            of_tenant,
            case when new.fact = 'question' or new.body::text like '%"point":"question"%'
                 then 'run.waiting' else 'run.paused' end,
            json_build_object('run', new.run_id));
    when 'resumed' then
        perform announce(of_tenant, 'run.resumed', json_build_object('run', new.run_id));
    when 'finished' then
        outcome := coalesce(new.fact, substring(new.body::text from '"outcome":"([a-z]+)"'));
        perform announce(
            of_tenant, 'run.ended',
            case when outcome is null then json_build_object('run', new.run_id)
                 else json_build_object('run', new.run_id, 'outcome', outcome) end);
    else
        perform announce(of_tenant, 'run.created', json_build_object('run', new.run_id));
    end case;
    return null;
end $$;

create trigger run_event_is_announced after insert on run_event
    for each row
    when (new.kind in ('run_created', 'forked_from', 'paused', 'resumed', 'finished'))
    execute function announce_run();
