-- When an operator took a lost node out of the lists. Its row stays: its number is part of ids.
alter table node add column forgotten_at timestamptz;
