-- expand
-- The share that each worker holds of the limits of applications, and its need. Worker 0 holds nothing: limits are divided under
-- a lock of its row. Rates are attempts in 1,000 seconds.
create table app_share (
  app bigint not null,
  worker bigint not null,
  rate bigint not null,
  slots bigint not null,
  rate_wanted bigint not null,
  slots_wanted bigint not null,
  primary key (app, worker)
) with (fillfactor = 50, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_cost_delay = 0);
create index app_share_worker on app_share (worker);
