-- Why the body was erased: `delivered` when all deliveries had succeeded; null otherwise.
alter table message add column erase_reason text;

-- Bodies that are erased once all deliveries have succeeded are looked at again and again, and erased at `over_at` anyway.
alter table payload_end add column once_delivered integer not null default 0;
alter table payload_end add column over_at integer;
