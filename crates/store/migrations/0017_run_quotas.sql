-- Quotas of a tenant's runs. No row, or null: the default of the control process holds.
create table run_quota (
    tenant text primary key references tenant,
    -- Unfinished runs at once.
    runs integer check (runs >= 0),
    -- Cost of models since midnight UTC, in billionths of a dollar.
    nano_dollars_per_day bigint check (nano_dollars_per_day >= 0)
);
