-- The gateway operations that a tenant, or a key, may name. Null: all that are configured.
alter table tenant add column operations text[];
alter table key add column operations text[];
