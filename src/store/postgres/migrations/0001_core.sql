-- Instants are integer milliseconds since 1970 by the server's clock; keys are the time-based integers of domain/ids.ts.
-- Lists and records are json, not jsonb: they come back as they were given. No foreign keys: on the hot tables each would
-- cost a probe and a lock per row, and nothing here is ever deleted by key while something still points at it.

create table application (
  key bigint primary key,
  id text not null,
  uid text,
  name text not null,
  throttle_rate integer,
  metadata json not null,
  version bigint not null default 1, -- grows with every change of the application's endpoints
  created_at bigint not null,
  updated_at bigint not null,
  deleted_at bigint
);

create unique index application_uid on application (uid) where uid is not null and deleted_at is null;

create table endpoint (
  key bigint primary key,
  id text not null,
  app bigint not null,
  uid text,
  url text not null,
  description text not null,
  disabled boolean not null,
  disabled_reason text,
  event_types json,
  channels json,
  secrets json not null,
  headers json not null,
  metadata json not null,
  throttle_rate integer,
  throttle_period_s integer not null,
  burst integer,
  concurrency integer,
  timeout_ms integer,
  retry json,
  created_at bigint not null,
  updated_at bigint not null,
  deleted_at bigint
);

create unique index endpoint_uid on endpoint (app, uid) where uid is not null and deleted_at is null;
create index endpoint_app on endpoint (app, key);

-- One partition per day of key (partitions.ts), so that history is dropped and never deleted row by row. The default
-- partition takes what no day was made for, after a clock that jumped, say: publishing must not fail for that.
create table message (
  key bigint primary key,
  id text not null,
  app bigint not null,
  event_type text not null,
  event_id text,
  channels json,
  content_type text not null,
  endpoints bigint[] not null,
  body bytea not null
) partition by range (key);

create table message_default partition of message default;

-- Beside message, because a unique index on a partitioned table must contain the partition's key.
create table event_id (
  app bigint not null,
  event_id text not null,
  message bigint not null,
  primary key (app, event_id)
);

-- Deliveries that have not ended. Every row is inserted once and deleted once, so vacuum must come early and at full
-- speed: the head of a queue is read past the dead entries in front of it.
create table pending (
  endpoint bigint not null,
  class smallint not null,
  due_at bigint not null,
  message bigint not null,
  since bigint not null, -- when the delivery was first due
  attempts integer not null,
  prior_attempts integer not null,
  primary key (endpoint, class, due_at, message)
) with (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.2
);

-- Lies in its message's day, so that both are dropped together.
create table attempt (
  message bigint not null,
  endpoint bigint not null,
  n integer not null,
  id text not null,
  at bigint not null,
  duration_ms integer not null,
  status integer not null,
  code text not null,
  error text,
  response bytea,
  next_at bigint,
  trigger text not null,
  primary key (message, endpoint, n)
) partition by range (message);

create index attempt_endpoint on attempt (endpoint, at);

create table attempt_default partition of attempt default;

create table dead (
  endpoint bigint not null,
  message bigint not null,
  app bigint not null,
  reason text not null,
  attempts integer not null,
  died_at bigint not null,
  since bigint not null,
  status integer not null,
  code text not null,
  error text,
  response bytea,
  primary key (endpoint, message)
);

create index dead_app on dead (app, died_at);

-- due_at is null while the lane is owned, stopped, or has nothing to do. clean says that the last owner handed the lane
-- back itself, so that bucket_full_at can be believed; an owner that dies leaves it false. Half of each page is
-- kept free so that holds, which touch no index, stay on it.
create table lane (
  endpoint bigint primary key,
  app bigint not null,
  due_at bigint,
  owner bigint,
  epoch bigint not null default 0,
  stopped boolean not null default false,
  clean boolean not null default true,
  bucket_full_at bigint not null default 0,
  hold_until bigint not null default 0, -- Retry-After
  not_before bigint not null default 0 -- no sooner than this, by the last owner's word
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create index lane_due on lane (due_at) where owner is null and due_at is not null;
create index lane_owner on lane (owner) where owner is not null;

-- Ids are never used twice, so that a worker whose row was swept away stays fenced.
create table worker (
  id bigint primary key generated always as identity,
  description text not null,
  joined_at bigint not null,
  lease_ms bigint not null, -- bounds what a clock set back can add to lease_until
  lease_until bigint not null,
  ended_at bigint
) with (
  fillfactor = 50,
  autovacuum_vacuum_threshold = 100,
  autovacuum_vacuum_cost_delay = 0
);

create table api_key (
  key bigint primary key,
  id text not null,
  name text not null,
  hash bytea not null unique,
  scopes json not null,
  created_at bigint not null,
  revoked_at bigint
);

-- The number a process puts into the keys it makes; two with the same number notice by a key that is taken.
create sequence node as integer minvalue 0 maxvalue 31 cycle;
