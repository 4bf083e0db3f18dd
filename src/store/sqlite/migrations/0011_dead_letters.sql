-- A paced task sleeps between its steps until this instant; any worker may resume it.
alter table task add column rest_until integer not null default 0;
drop index task_running;
create index task_running on task (lease_until, rest_until) where status = 'running';

-- The dead letters of all applications in their order.
create index dead_died on dead (died_at);
