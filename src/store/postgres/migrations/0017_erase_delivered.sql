-- Why the body was erased: `delivered` when all deliveries had succeeded; null otherwise.
alter table message add column erase_reason text;

-- Bodies that are erased once all deliveries have succeeded are looked at again and again, and erased at `over_at` anyway.
alter table payload_end add column once_delivered boolean not null default false;
alter table payload_end add column over_at bigint;
