-- Applications with retention of their own.
create index application_retention on application (key)
  where deleted_at is null and (settings ->> 'retentionSeconds' is not null or settings ->> 'deadRetentionSeconds' is not null);
