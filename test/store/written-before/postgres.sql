-- A database that Sluice at commit 6683d50 has written: its migrations, the days it had made, and every row.
create table migration (version integer primary key, name text not null, applied_at bigint not null);

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
create table event_id (
  app bigint not null,
  event_id text not null,
  message bigint not null,
  primary key (app, event_id)
);
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
create sequence node as integer minvalue 0 maxvalue 31 cycle;

alter table endpoint add column method text not null default 'POST';
alter table endpoint add column paused boolean not null default false;
insert into application (key, id, uid, name, throttle_rate, metadata, created_at, updated_at)
values (0, 'management', null, 'Operational webhooks', null, '{}', 0, 0);
create table removal (
  key bigint primary key,
  kind text not null,
  since bigint not null,
  due_at bigint not null,
  reached bigint not null default 0
);

create index removal_due on removal (due_at);
create table event_type (
  name text collate "C" primary key,
  description text not null,
  archived boolean not null,
  deprecated boolean not null,
  schemas json,
  feature_flags json,
  group_name text,
  created_at bigint not null,
  updated_at bigint not null
);

create index message_app on message (app, key);
create index dead_endpoint on dead ((endpoint + 0), died_at);
alter table message add column expunged_at bigint;
create table task (
  key bigint primary key,
  id text not null,
  app bigint,
  type text not null,
  status text not null,
  input json not null,
  cursor json,
  data json not null,
  epoch bigint not null default 0, -- grows with every holder, who is thereby fenced from the next one's work
  lease_until bigint not null default 0,
  created_at bigint not null,
  updated_at bigint not null
);

create index task_running on task (lease_until) where status = 'running';

alter table api_key
  add column app bigint, -- the one application it is for; null for all
  add column expires_at bigint,
  add column last_used_at bigint; -- within a minute
create table app_token (
  key bigint primary key,
  id text not null,
  app bigint not null,
  hash bytea not null unique,
  capabilities json not null,
  session_id text,
  created_at bigint not null,
  expires_at bigint not null
);

create index app_token_app on app_token (app);
create index app_token_expires on app_token (expires_at);
create table sealing_key (
  id text primary key,
  proof text not null
);
create table audit (
  n bigint primary key,
  id text not null,
  at bigint not null,
  actor text not null,
  ip text not null,
  action text not null,
  app text,
  target text not null,
  before text,
  after text,
  hash text not null
);

alter table message add column tags json;
alter table message add column headers json; -- sent along with every attempt
alter table message add column deliver_at bigint; -- null when its deliveries were due at once
alter table application add column dedupe_s integer;
create table idempotency (
  hash text primary key,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at bigint not null,
  message bigint,
  status integer,
  answer bytea
);

create index idempotency_expires on idempotency (expires_at);
create table fan_out (
  message bigint primary key,
  since bigint not null, -- when its deliveries are due
  next integer not null
);

alter table endpoint add column flow json;
alter table application add column settings json;
alter table lane add column health text;
alter table lane add column health_at bigint not null default 0;
alter table lane add column snapshot text;
alter table lane add column snapshot_at bigint not null default 0;
alter table pending add column order_key bigint;
alter table pending add column held_until bigint;
alter table pending add column expires_at bigint;
alter table pending add column variant smallint;

create index pending_expires on pending (expires_at) where expires_at is not null;

alter table message add column expires_at bigint;
alter table message add column ordering_key text;
alter table message add column plan json;

create table notice (
  key bigint generated always as identity primary key,
  at bigint not null,
  type text not null,
  app bigint not null,
  endpoint bigint not null,
  message bigint,
  data json not null
);

create table variant (
  message bigint not null,
  n smallint not null,
  body bytea,
  signature text,
  primary key (message, n)
) partition by range (message);

create table variant_default partition of variant default;
create table region (
  app bigint not null,
  name text collate "C" not null,
  secret text not null,
  created_at bigint not null,
  primary key (app, name)
);

create table coalescing (
  endpoint bigint not null,
  key text not null, -- what deliveries of one kind have in common, hashed
  message bigint not null,
  replaced bigint, -- whose delivery waited before; for whoever has just written the row
  due_at bigint not null,
  primary key (endpoint, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index coalescing_due on coalescing (due_at);
create table coalesced (
  message bigint not null,
  endpoint bigint not null,
  at bigint not null,
  successor bigint not null, -- the message that took its place
  primary key (message, endpoint)
) partition by range (message);

create table coalesced_default partition of coalesced default;

create table schedule (
  key bigint primary key,
  id text not null,
  app bigint not null,
  uid text,
  cron text not null,
  timezone text not null,
  event_type text not null,
  body bytea not null,
  content_type text not null,
  channels json,
  tags json,
  missed text not null,
  missed_limit integer not null,
  paused boolean not null,
  metadata json not null,
  reached_at bigint not null, -- every tick up to here is dealt with
  next_at bigint, -- the tick to come
  due_at bigint, -- when to look at it: the tick to come, or the next try of one that failed; null while it is paused
  failures integer not null default 0,
  runs json not null default '[]', -- the last ones
  revision bigint not null default 0, -- grows with every change and every run: a run of an earlier one does nothing
  created_at bigint not null,
  updated_at bigint not null
);

create index schedule_app on schedule (app, key);
create unique index schedule_uid on schedule (app, uid) where uid is not null;
create index schedule_due on schedule (due_at) where due_at is not null;
create table leader (
  one smallint primary key check (one = 1),
  candidate text not null,
  description text not null,
  epoch bigint not null, -- grows with every leader
  since bigint not null,
  lease_ms bigint not null, -- bounds what a clock set back can add to lease_until
  lease_until bigint not null
);
create table payload_end (
  message bigint primary key,
  app bigint not null,
  at bigint not null
);

create index payload_end_at on payload_end (at);
create index task_ended on task (updated_at) where status in ('finished', 'failed', 'cancelled');

alter table task add column rest_until bigint not null default 0;
drop index task_running;
create index task_running on task (lease_until, rest_until) where status = 'running';
create index dead_died on dead ((died_at + 0));

create table attempt_20261115 partition of attempt FOR VALUES FROM ('3675547238400000') TO ('3675724185600000');
create table attempt_20261116 partition of attempt FOR VALUES FROM ('3675724185600000') TO ('3675901132800000');
create table attempt_20261117 partition of attempt FOR VALUES FROM ('3675901132800000') TO ('3676078080000000');
create table attempt_20261118 partition of attempt FOR VALUES FROM ('3676078080000000') TO ('3676255027200000');
create table coalesced_20261115 partition of coalesced FOR VALUES FROM ('3675547238400000') TO ('3675724185600000');
create table coalesced_20261116 partition of coalesced FOR VALUES FROM ('3675724185600000') TO ('3675901132800000');
create table coalesced_20261117 partition of coalesced FOR VALUES FROM ('3675901132800000') TO ('3676078080000000');
create table coalesced_20261118 partition of coalesced FOR VALUES FROM ('3676078080000000') TO ('3676255027200000');
create table message_20261115 partition of message FOR VALUES FROM ('3675547238400000') TO ('3675724185600000');
create table message_20261116 partition of message FOR VALUES FROM ('3675724185600000') TO ('3675901132800000');
create table message_20261117 partition of message FOR VALUES FROM ('3675901132800000') TO ('3676078080000000');
create table message_20261118 partition of message FOR VALUES FROM ('3676078080000000') TO ('3676255027200000');
create table variant_20261115 partition of variant FOR VALUES FROM ('3675547238400000') TO ('3675724185600000');
create table variant_20261116 partition of variant FOR VALUES FROM ('3675724185600000') TO ('3675901132800000');
create table variant_20261117 partition of variant FOR VALUES FROM ('3675901132800000') TO ('3676078080000000');
create table variant_20261118 partition of variant FOR VALUES FROM ('3676078080000000') TO ('3676255027200000');
insert into api_key ("key", "id", "name", "hash", "scopes", "created_at", "revoked_at", "app", "expires_at", "last_used_at") overriding system value values
  ('3675720652376064', 'key_Gpl7eCmFUaub2a2k6MRbygHht9p', 'publisher', E'\\xb2f195328e6c7592bcd3830bd4006acdb72c0138e75226d45be3f24964beb2a7', '["publish"]', '1794785474798', null, '3675720652044288', null, null);
insert into app_token ("key", "id", "app", "hash", "capabilities", "session_id", "created_at", "expires_at") overriding system value values
  ('3675720652394496', 'apptok_Gpl7eCr2mlIVxfrG4LD8qXmyA8B', '3675720652044288', E'\\x7d4cecb0e1788a60ce55486ee22396cba322d0c70bd927890b724218bc085384', '["ViewBase"]', 's1', '1794785474923', '3371585474923');
delete from application;
insert into application ("key", "id", "uid", "name", "throttle_rate", "metadata", "version", "created_at", "updated_at", "deleted_at", "dedupe_s", "settings") overriding system value values
  ('0', 'management', null, 'Operational webhooks', null, '{}', '1', '0', '0', null, null, null),
  ('3675720652044288', 'app_Gpl7eBNwGJXl5Gcb4eMuCUfns6i', 'acme', 'Acme', '50', '{"plan":"gold"}', '5', '1794785474643', '1794785474643', null, '60', '{"signatureHeaders":{"signature":"x-acme-signature"}}');
insert into attempt ("message", "endpoint", "n", "id", "at", "duration_ms", "status", "code", "error", "response", "next_at", "trigger") overriding system value values
  ('3675720652838912', '3675720652158976', '1', 'atmpt_1', '1794785475118', '20', '204', 'delivered', null, null, null, 'scheduled'),
  ('3675720653121536', '3675720652158976', '1', 'atmpt_2', '1794785475174', '20', '503', 'refused', 'the receiver answered 503', E'\\x00ff0a', null, 'scheduled');
insert into audit ("n", "id", "at", "actor", "ip", "action", "app", "target", "before", "after", "hash") overriding system value values
  ('1', 'audit_0000000013cDX0jgQDGAHmQQzmw', '1794785474962', 'key_x', '127.0.0.1', 'endpoint.create', 'app_Gpl7eBNwGJXl5Gcb4eMuCUfns6i', 'ep_Gpl7eBrm4U4NpSvODyQlmJL95lg', null, '{"url":"https://example.com/first"}', 'd140af2b1e4e726b1885be1ddb5dd9e72e89dfc5ad34d8ebcdf3d9bd1f0d3c2f');
insert into dead ("endpoint", "message", "app", "reason", "attempts", "died_at", "since", "status", "code", "error", "response") overriding system value values
  ('3675720652158976', '3675720653121536', '3675720652044288', 'exhausted', '1', '1794785475204', '1794785475180', '503', 'refused', 'the receiver answered 503', E'\\x00ff0a');
insert into endpoint ("key", "id", "app", "uid", "url", "description", "disabled", "disabled_reason", "event_types", "channels", "secrets", "headers", "metadata", "throttle_rate", "throttle_period_s", "burst", "concurrency", "timeout_ms", "retry", "created_at", "updated_at", "deleted_at", "method", "paused", "flow") overriding system value values
  ('3675720652158976', 'ep_Gpl7eBrm4U4NpSvODyQlmJL95lg', '3675720652044288', 'first', 'https://example.com/first', '', 'false', null, '["video.*"]', null, '"v1|test|RWajC+54wB+I8cbE|MsxhejbYUvPXi5q3ZpcJog==|oTIvot+yn1lVxVOvvW8EXqrzJU3+3Z3FpZr01o03Lpar/C+Dxrs08+ZB"', '"v1|test|OanxhtE7XyAQ9zMM|b6YSHxNMSDXi/As8OXeC3g==|7H2A1sA0EwI14bZ1xVTO3KSwwqCdVAzhEalE8Tu1"', '{"team":"a"}', null, '1', null, null, null, null, '1794785474699', '1794785474699', null, 'POST', 'false', null),
  ('3675720652214272', 'ep_Gpl7eC69wxUvzHWYLiz0g4E3Z9z', '3675720652044288', 'shaped', 'https://example.com/shaped', '', 'false', null, null, null, '[]', '{}', '{}', null, '1', null, null, null, null, '1794785474733', '1794785474733', null, 'POST', 'false', '{"shape":{"keep":null,"drop":["/x"],"rename":{},"pseudonymize":["/id"]},"region":"eu"}'),
  ('3675720652320768', 'ep_Gpl7eCXrc1NPAQm3fuIRuv9Vq8q', '3675720652044288', 'paused', 'https://example.com/paused', '', 'false', null, null, null, '[]', '{}', '{}', null, '1', null, null, null, null, '1794785474771', '1794785474771', null, 'POST', 'true', null);
insert into event_id ("app", "event_id", "message") overriding system value values
  ('3675720652044288', 'delivered', '3675720652838912'),
  ('3675720652044288', 'dead', '3675720653121536'),
  ('3675720652044288', 'waiting', '3675720653209600'),
  ('3675720652044288', 'timed', '3675720653250560');
insert into event_type ("name", "description", "archived", "deprecated", "schemas", "feature_flags", "group_name", "created_at", "updated_at") overriding system value values
  ('video.trending', 'A video trends.', 'false', 'false', '{"1":{"type":"object"}}', '["beta"]', 'video', '1794785474676', '1794785474676');
insert into lane ("endpoint", "app", "due_at", "owner", "epoch", "stopped", "clean", "bucket_full_at", "hold_until", "not_before", "health", "health_at", "snapshot", "snapshot_at") overriding system value values
  ('3675720652214272', '3675720652044288', null, null, '0', 'false', 'true', '0', '0', '0', null, '0', null, '0'),
  ('3675720652320768', '3675720652044288', null, null, '0', 'true', 'true', '0', '0', '0', null, '0', null, '0'),
  ('3675720652158976', '3675720652044288', '1794785475237', null, '1', 'false', 'false', '0', '0', '0', null, '0', null, '0');
insert into message ("key", "id", "app", "event_type", "event_id", "channels", "content_type", "endpoints", "body", "expunged_at", "tags", "headers", "deliver_at", "expires_at", "ordering_key", "plan") overriding system value values
  ('3675720652838912', 'msg_Gpl7eEiemuhVrbUwptDNAql9ABQ', '3675720652044288', 'video.trending', 'delivered', null, 'application/json', '{3675720652158976}', E'\\x7b227669657773223a312e307d', null, '["t"]', null, null, null, null, null),
  ('3675720653121536', 'msg_Gpl7eFuBEUhRuD0CbIDBBGE2qkR', '3675720652044288', 'video.trending', 'dead', null, 'application/json', '{3675720652158976}', E'\\x7b227669657773223a312e307d', null, null, null, null, null, null, null),
  ('3675720653209600', 'msg_Gpl7eGH5ciNXK7mlTgGEDCMaJ7q', '3675720652044288', 'video.trending', 'waiting', null, 'application/json', '{3675720652158976,3675720652320768}', E'\\x7b227669657773223a312e307d', null, null, null, null, null, null, null),
  ('3675720653250560', 'msg_Gpl7eGRkG3H4xbUqHDhGnJmxt0n', '3675720652044288', 'video.trending', 'timed', null, 'application/json', '{3675720652158976}', E'\\x7b227669657773223a312e307d', null, null, null, '3371585475230', null, null, null);
insert into migration ("version", "name", "applied_at") overriding system value values
  ('1', 'core', '1794785473066'),
  ('2', 'resources', '1794785473161'),
  ('3', 'history', '1794785473239'),
  ('4', 'access', '1794785473347'),
  ('5', 'intake', '1794785473427'),
  ('6', 'flow', '1794785473470'),
  ('7', 'notices', '1794785473526'),
  ('8', 'shaping', '1794785473589'),
  ('9', 'coalescing', '1794785473686'),
  ('10', 'schedules', '1794785473798'),
  ('11', 'dead_letters', '1794785473822');
insert into pending ("endpoint", "class", "due_at", "message", "since", "attempts", "prior_attempts", "order_key", "held_until", "expires_at", "variant") overriding system value values
  ('3675720652158976', '0', '1794785475217', '3675720653209600', '1794785475217', '0', '0', null, null, null, null),
  ('3675720652320768', '0', '1794785475217', '3675720653209600', '1794785475217', '0', '0', null, null, null, null),
  ('3675720652158976', '1', '3371585475230', '3675720653250560', '3371585475230', '0', '0', null, null, null, null);
insert into region ("app", "name", "secret", "created_at") overriding system value values
  ('3675720652044288', 'eu', 'v1|test|CvvtWcBhrweGTtO9|PM123KbPe8EOmE99qm/Zmg==|EedYBJ2FkT9bL2aES8B8j2icDq6XlUZn4S3/T77LZM3OC7FvunQ2', '1794785474665');
insert into schedule ("key", "id", "app", "uid", "cron", "timezone", "event_type", "body", "content_type", "channels", "tags", "missed", "missed_limit", "paused", "metadata", "reached_at", "next_at", "due_at", "failures", "runs", "revision", "created_at", "updated_at") overriding system value values
  ('3675720652345344', 'sch_Gpl7eCeG0xGOj41dJN9VE1YYwO7', '3675720652044288', 'daily', '0 9 * * *', 'Europe/Berlin', 'video.trending', E'\\x7b226461696c79223a747275657d', 'application/json', '["eu"]', '["daily"]', 'once', '1', 'false', '{"by":"cron"}', '1794785474783', '1794816000000', '1794816000000', '0', '[]', '0', '1794785474783', '1794785474783');
insert into sealing_key ("id", "proof") overriding system value values
  ('test', 'v1|test|hdh8Xcyq2M5lYb8L|WDI9qgXl2JF3k3F3TNLe3w==|Cwaw2EBm');
insert into task ("key", "id", "app", "type", "status", "input", "cursor", "data", "epoch", "lease_until", "created_at", "updated_at", "rest_until") overriding system value values
  ('3675720653312000', 'qtask_Gpl7eGhjEGCjSnjmTocjdXPOgU6', '3675720652044288', 'replay', 'running', '{"endpoint":3675720652158976}', null, '{}', '0', '0', '1794785475257', '1794785475257', '0');
insert into worker ("id", "description", "joined_at", "lease_ms", "lease_until", "ended_at") overriding system value values
  ('1', 'a worker under test', '1794785474998', '60000', '1794785534998', '1794785475234');
select setval(pg_get_serial_sequence('worker', 'id'), (select max("id") from worker));
