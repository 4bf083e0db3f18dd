-- Instants are integer milliseconds since 1970; keys are the time-based integers of domain/ids.ts. Lists and records are
-- JSON text. No foreign keys: on the hot tables each would cost a probe per row, and nothing here is ever deleted by key
-- while something still points at it.

create table application (
  key integer primary key,
  id text not null,
  uid text,
  name text not null,
  throttle_rate integer,
  metadata text not null,
  version integer not null default 1, -- grows with every change of the application's endpoints
  created_at integer not null,
  updated_at integer not null,
  deleted_at integer
) strict;

create unique index application_uid on application (uid) where uid is not null and deleted_at is null;

create table endpoint (
  key integer primary key,
  id text not null,
  app integer not null,
  uid text,
  url text not null,
  description text not null,
  disabled integer not null,
  disabled_reason text,
  event_types text,
  channels text,
  secrets text not null,
  headers text not null,
  metadata text not null,
  throttle_rate integer,
  throttle_period_s integer not null,
  burst integer,
  concurrency integer,
  timeout_ms integer,
  retry text,
  created_at integer not null,
  updated_at integer not null,
  deleted_at integer
) strict;

create unique index endpoint_uid on endpoint (app, uid) where uid is not null and deleted_at is null;
create index endpoint_app on endpoint (app, key);

create table message (
  key integer primary key,
  id text not null,
  app integer not null,
  event_type text not null,
  event_id text,
  channels text,
  content_type text not null,
  endpoints text not null,
  body blob not null
) strict;

-- Beside message rather than an index on it, so that a message without an event id pays nothing, and so that history can
-- be dropped by day where the database partitions it.
create table event_id (
  app integer not null,
  event_id text not null,
  message integer not null,
  primary key (app, event_id)
) strict, without rowid;

-- Deliveries that have not ended, each lane's rows side by side in the order they are served.
create table pending (
  endpoint integer not null,
  class integer not null,
  due_at integer not null,
  message integer not null,
  since integer not null, -- when the delivery was first due
  attempts integer not null,
  prior_attempts integer not null,
  primary key (endpoint, class, due_at, message)
) strict, without rowid;

create table attempt (
  message integer not null,
  endpoint integer not null,
  n integer not null,
  id text not null,
  at integer not null,
  duration_ms integer not null,
  status integer not null,
  code text not null,
  error text,
  response blob,
  next_at integer,
  trigger text not null,
  primary key (message, endpoint, n)
) strict, without rowid;

create index attempt_endpoint on attempt (endpoint, at);

create table dead (
  endpoint integer not null,
  message integer not null,
  app integer not null,
  reason text not null,
  attempts integer not null,
  died_at integer not null,
  since integer not null,
  status integer not null,
  code text not null,
  error text,
  response blob,
  primary key (endpoint, message)
) strict, without rowid;

create index dead_app on dead (app, died_at);

-- due_at is null while the lane is owned, stopped, or has nothing to do. clean says that no owner died with the lane since
-- it was last handed back, so that bucket_full_at can be believed.
create table lane (
  endpoint integer primary key,
  app integer not null,
  due_at integer,
  owner integer,
  epoch integer not null default 0,
  stopped integer not null default 0,
  clean integer not null default 1,
  bucket_full_at integer not null default 0,
  hold_until integer not null default 0, -- Retry-After
  not_before integer not null default 0 -- no sooner than this, by the last owner's word
) strict;

create index lane_due on lane (due_at) where owner is null and due_at is not null;
create index lane_owner on lane (owner) where owner is not null;

-- Ids are never used twice (autoincrement), so that a worker whose row was swept away stays fenced.
create table worker (
  id integer primary key autoincrement,
  description text not null,
  joined_at integer not null,
  lease_ms integer not null, -- bounds what a clock set back can add to lease_until
  lease_until integer not null,
  ended_at integer
) strict;

create table api_key (
  key integer primary key,
  id text not null,
  name text not null,
  hash blob not null unique,
  scopes text not null,
  created_at integer not null,
  revoked_at integer
) strict;
