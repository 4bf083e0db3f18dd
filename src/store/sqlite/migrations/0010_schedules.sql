-- Messages that are published by a cron expression.
create table schedule (
  key integer primary key,
  id text not null,
  app integer not null,
  uid text,
  cron text not null,
  timezone text not null,
  event_type text not null,
  body blob not null,
  content_type text not null,
  channels text,
  tags text,
  missed text not null,
  missed_limit integer not null,
  paused integer not null,
  metadata text not null,
  reached_at integer not null, -- every tick up to here is dealt with
  next_at integer, -- the tick to come
  due_at integer, -- when to look at it: the tick to come, or the next try of one that failed; null while it is paused
  failures integer not null default 0,
  runs text not null default '[]', -- the last ones
  revision integer not null default 0, -- grows with every change and every run: a run of an earlier one does nothing
  created_at integer not null,
  updated_at integer not null
) strict;

create index schedule_app on schedule (app, key);
create unique index schedule_uid on schedule (app, uid) where uid is not null;
create index schedule_due on schedule (due_at) where due_at is not null;

-- The leader, which does the work that is done once for the whole store; one row at most.
create table leader (
  one integer primary key check (one = 1),
  candidate text not null,
  description text not null,
  epoch integer not null, -- grows with every leader
  since integer not null,
  lease_ms integer not null, -- bounds what a clock set back can add to lease_until
  lease_until integer not null
) strict;

-- Messages whose body is erased before the message is removed.
create table payload_end (
  message integer primary key,
  app integer not null,
  at integer not null
) strict;

create index payload_end_at on payload_end (at);

-- Ended tasks go when they are old.
create index task_ended on task (updated_at) where status in ('finished', 'failed', 'cancelled');
