-- The largest limits that a client may choose on a node. Null: its version knows no such choice.
alter table node add column max_limits jsonb;
