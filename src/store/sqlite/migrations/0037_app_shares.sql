-- expand
-- The share that each worker holds of the limits of applications, and its need. Worker 0 holds nothing: limits are divided under
-- a lock of its row. Rates are attempts in 1,000 seconds.
create table app_share (
  app integer not null,
  worker integer not null,
  rate integer not null,
  slots integer not null,
  rate_wanted integer not null,
  slots_wanted integer not null,
  primary key (app, worker)
) strict, without rowid;
create index app_share_worker on app_share (worker);
