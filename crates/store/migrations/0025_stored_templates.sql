-- Nodes also tell how many bytes of templates they keep that tenants built.

set local lock_timeout = '60s';

alter table stored_sample drop constraint stored_sample_kind_check;
alter table stored_sample
    add constraint stored_sample_kind_check check (kind in ('volumes', 'checkpoints', 'templates'));
