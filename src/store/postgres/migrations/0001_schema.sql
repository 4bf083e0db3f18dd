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
  deleted_at bigint,
  -- How long the same content, or the same key sent with it, is one message; null for no time at all.
  dedupe_s integer,
  -- Settings of an application for all its endpoints; null for none.
  settings json
);

create unique index application_uid on application (uid) where uid is not null and deleted_at is null;

-- Applications with retention of their own.
create index application_retention on application (key)
  where deleted_at is null and (settings ->> 'retentionSeconds' is not null or settings ->> 'deadRetentionSeconds' is not null);

-- The application that owns the endpoints of operational webhooks. No other row can have its key and id: no caller finds it.
insert into application (key, id, uid, name, throttle_rate, metadata, created_at, updated_at)
values (0, 'management', null, 'Operational webhooks', null, '{}', 0, 0);

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
  deleted_at bigint,
  -- How deliveries are sent. Pausing is taken back by an operator, disabling is not.
  method text not null default 'POST',
  paused boolean not null default false,
  -- How an endpoint gets its messages, beyond its rate (see domain/flow.ts); null for the defaults.
  flow json,
  -- Credentials toward receivers, sealed; null for none. The expiry of the client certificate is in the open, for the doctor.
  auth json,
  client_certificate json,
  certificate_expires_at bigint
);

create unique index endpoint_uid on endpoint (app, uid) where uid is not null and deleted_at is null;
create index endpoint_app on endpoint (app, key);
create index endpoint_certificate on endpoint (certificate_expires_at) where certificate_expires_at is not null;

-- Those whose uid is `.` or `..`, which no client can name in a URL. The doctor reads them.
create index endpoint_folded on endpoint (uid) where uid in ('.', '..');

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
  body bytea not null,
  -- The body of such a message is empty, and it is never sent again.
  expunged_at bigint,
  tags json,
  headers json, -- sent along with every attempt
  deliver_at bigint, -- null when its deliveries were due at once
  expires_at bigint,
  ordering_key text,
  -- How its deliveries differ from plain ones; null when none does.
  plan json,
  -- Why the body was erased: `delivered` when all deliveries had succeeded; null otherwise.
  erase_reason text,
  -- The context of the trace that the message belongs to; null when it belongs to none.
  trace text,
  -- The headers with which the message arrived at a source; null for a message that was published.
  arrived_headers json
) partition by range (key);

create table message_default partition of message default;

-- History: an application's messages in their order.
create index message_app on message (app, key);

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
  -- Ordered lanes: deliveries with the same number go one after the other, and a delivery that waits for its retry keeps its
  -- place until then.
  order_key bigint,
  held_until bigint,
  -- When it expires; null for never.
  expires_at bigint,
  -- Which body it is sent with; null for the message's own.
  variant smallint,
  primary key (endpoint, class, due_at, message)
) with (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_vacuum_cost_delay = 0,
  autovacuum_analyze_scale_factor = 0.2
);

create index pending_expires on pending (expires_at) where expires_at is not null;

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
  -- Bounded, without secrets; null without an answer, and once the answer is erased.
  response_headers json,
  -- The split of an attempt's time, as `writeTimings` writes it; null when it is unknown.
  timings text,
  primary key (message, endpoint, n)
) partition by range (message);

create table attempt_default partition of attempt default;

create index attempt_endpoint on attempt (endpoint, at);

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

-- On an expression, so that only a list can use it: while the table is small, a dead letter looked up by its whole key would
-- as well be sought here, among all of its endpoint's.
create index dead_endpoint on dead ((endpoint + 0), died_at);

-- The dead letters of all applications in their order. On an expression, so that no other list can use it: while the table is
-- small, those of one application would as well be sought here, among all.
create index dead_died on dead ((died_at + 0));

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
  not_before bigint not null default 0, -- no sooner than this, by the last owner's word
  -- How well the receiver does, as its last owner reported at that instant: circuit, pace, how long it has been failing.
  health text,
  health_at bigint not null default 0,
  -- The owner's last snapshot.
  snapshot text,
  snapshot_at bigint not null default 0,
  -- The limit that bucket_full_at was counted by, as JSON: another one may be in force when the lane is claimed. `null` in JSON
  -- when there was no limit; null while no owner has stored it.
  bucket_limit text,
  -- The region whose workers may own the lane: the endpoint's, else its application's.
  region text not null default 'default'
) with (
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create index lane_owner on lane (owner) where owner is not null;
create index lane_due on lane (due_at) where owner is null and due_at is not null and region = 'default';
create index lane_due_elsewhere on lane (due_at) where owner is null and due_at is not null and region <> 'default';
create index lane_region_due on lane (region, due_at) where owner is null and due_at is not null and region <> 'default';

-- Finds the next application that has unowned lanes with an instant, and its lanes in the order of that instant, at one seek
-- each: while more lanes are due than a worker takes at once, applications take turns.
create index lane_app_due on lane (app, region, due_at) where owner is null and due_at is not null;

-- Ids are never used twice, so that a worker whose row was swept away stays fenced.
create table worker (
  id bigint primary key generated always as identity,
  description text not null,
  joined_at bigint not null,
  lease_ms bigint not null, -- bounds what a clock set back can add to lease_until
  lease_until bigint not null,
  ended_at bigint,
  report json, -- version, host, pid and attempts under way, as of the last renewal
  -- The regions that a worker serves; null for all.
  regions text[],
  -- A worker that is stopping takes no lanes: the others share them.
  leaving boolean not null default false,
  -- The start of the server whose session holds the lock of the worker; null: the lease alone says whether it lives.
  session bigint
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
  revoked_at bigint,
  app bigint, -- the one application it is for; null for all
  expires_at bigint,
  last_used_at bigint -- within a minute
);

-- Deletions that still have rows elsewhere. A sweep removes those rows a few at a time, from due_at on: the endpoints
-- of an application behind the one reached, the waiting deliveries of an endpoint.
create table removal (
  key bigint primary key,
  kind text not null,
  since bigint not null,
  due_at bigint not null,
  reached bigint not null default 0
);

create index removal_due on removal (due_at);

-- Names are ordered by their bytes, whatever the database's locale, so that both stores list them alike.
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

-- Long work, done in steps by the worker that holds the lease. A step saves its cursor in the transaction of its work.
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
  updated_at bigint not null,
  -- A paced task sleeps between its steps until this instant; any worker may resume it.
  rest_until bigint not null default 0
);

-- Ended tasks are removed when they are old.
create index task_ended on task (updated_at) where status in ('finished', 'failed', 'cancelled');
create index task_running on task (lease_until, rest_until) where status = 'running';

-- Tokens for the portal of one application. A row goes when the token ends.
create table app_token (
  key bigint primary key,
  id text not null,
  app bigint not null,
  hash bytea not null unique,
  capabilities json not null,
  session_id text,
  created_at bigint not null,
  expires_at bigint not null,
  made_by bigint, -- the API key that it ends with; null for the key of the settings
  feature_flags json -- whose event types it sees; null for all
);

create index app_token_app on app_token (app);
create index app_token_expires on app_token (expires_at);

-- Encryption keys that may have sealed a record here, each with a text that it sealed: a wrong key is found at the start.
create table sealing_key (
  id text primary key,
  proof text not null
);

-- The log of changes and their actors. Rows are only appended; each row's hash covers the one before it. The states
-- before and after are text, not json: the hash is over their characters.
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

-- Actions that may happen once: a request with an Idempotency-Key, a publish within its application's dedupe window. A row
-- that has expired counts as missing. A publish leaves the message it became; any other request its answer, or neither while
-- it is under way.
create table idempotency (
  hash text primary key,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at bigint not null,
  message bigint,
  status integer,
  answer bytea
);

create index idempotency_expires on idempotency (expires_at);

-- Messages whose deliveries are not all in pending yet: those from position next of message.endpoints on are missing.
create table fan_out (
  message bigint primary key,
  since bigint not null, -- when its deliveries are due
  next integer not null
);

-- Notices for operators, until they are sent. A notice keeps the names that its subjects had when it was written.
create table notice (
  key bigint generated always as identity primary key,
  at bigint not null,
  type text not null,
  app bigint not null,
  endpoint bigint not null,
  message bigint,
  data json not null
);

-- Bodies that some endpoints get instead of the message's own (null: its own), and signatures that are made once.
-- Fixed when the message is accepted. Lies in its message's day, so that both are dropped together.
create table variant (
  message bigint not null,
  n smallint not null,
  body bytea,
  signature text,
  primary key (message, n)
) partition by range (message);

create table variant_default partition of variant default;

-- The secrets that make the pseudonyms of an application's endpoints. A secret is sealed. Names sort by their bytes.
create table region (
  app bigint not null,
  name text collate "C" not null,
  secret text not null,
  created_at bigint not null,
  primary key (app, name)
);

-- Windows in which deliveries of one kind become one: when each ends, and the message whose delivery waits for its end. A row
-- whose instant has passed counts as missing.
create table coalescing (
  endpoint bigint not null,
  key text not null, -- what deliveries of one kind have in common, hashed
  message bigint not null,
  replaced bigint, -- the message whose delivery waited before, for the transaction that has just written the row
  due_at bigint not null,
  primary key (endpoint, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index coalescing_due on coalescing (due_at);

-- Deliveries that ended without being sent because another took their place. Lies in its message's day, so that both are
-- dropped together.
create table coalesced (
  message bigint not null,
  endpoint bigint not null,
  at bigint not null,
  successor bigint not null, -- the message that took its place
  primary key (message, endpoint)
) partition by range (message);

create table coalesced_default partition of coalesced default;

-- Messages that are published by a cron expression.
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
  updated_at bigint not null,
  -- Headers of the messages that the schedule publishes; null for none.
  headers json
);

create index schedule_app on schedule (app, key);
create unique index schedule_uid on schedule (app, uid) where uid is not null;
create index schedule_due on schedule (due_at) where due_at is not null;
create index schedule_folded on schedule (uid) where uid in ('.', '..');

-- The leader, which does the work that is done once for the whole store; one row at most.
create table leader (
  one smallint primary key check (one = 1),
  candidate text not null,
  description text not null,
  epoch bigint not null, -- grows with every leader
  since bigint not null,
  lease_ms bigint not null, -- bounds what a clock set back can add to lease_until
  lease_until bigint not null
);

-- Messages whose body is erased before the message is removed.
create table payload_end (
  message bigint primary key,
  app bigint not null,
  at bigint not null,
  -- Bodies that are erased once all deliveries have succeeded are looked at again and again, and erased at `over_at` anyway.
  once_delivered boolean not null default false,
  over_at bigint,
  -- Endpoints that the message was replayed to although it was not accepted for them: their deliveries need the body, too.
  added_endpoints bigint[] not null default '{}'
);

create index payload_end_at on payload_end (at);

-- Sums of what happened by the minute and by the hour. Each process writes rows of its own; the leader merges them later.
create table history (
  scope bigint not null, -- the key of an application or an endpoint, or -1 for the server
  span integer not null, -- how long, in milliseconds
  at bigint not null, -- the start of the minute or hour
  writer text not null, -- empty for a merged row
  sums json not null,
  primary key (scope, span, at, writer)
) with (fillfactor = 70);

-- On expressions, so that no other statement uses it: it has the rows of all scopes.
create index history_at on history ((span + 0), (at + 0));
create index history_unfolded on history (at, scope) where writer <> '';

-- Sessions of browsers, and links that sign in once. Each belongs to an API key, to an application token, or to the admin
-- key of the settings, whose hash it keeps. A row goes when the session ends or the link is used.
create table web_session (
  key bigint primary key,
  id text not null,
  kind text not null, -- session, link
  hash bytea not null unique,
  owner_kind text not null, -- api_key, app_token, admin
  owner bigint not null, -- the key of the row; 0 for the admin key of the settings
  admin_hash bytea,
  user_agent text,
  address text,
  created_at bigint not null,
  expires_at bigint not null,
  last_used_at bigint -- within a minute
);

create index web_session_owner on web_session (owner_kind, owner, key);
create index web_session_expires on web_session (expires_at);

-- How the portal of an application looks. A table of its own: the logo is large, and the application's row is often read.
create table portal_look (
  app bigint primary key,
  name text,
  logo text, -- a data URL
  color text -- #rrggbb
);

-- Alerts. The leader steps their states; a version that grows keeps a second leader from doing the same.
create table alert (
  rule text not null,
  subject text not null, -- empty for the server, else the id of an endpoint, or a worker
  version bigint not null,
  state json not null,
  primary key (rule, subject)
);

-- Times in which alerts are not announced. A row goes when its time is over, with the next one that is made.
create table alert_silence (
  key bigint primary key,
  id text not null,
  rule text, -- null for all rules
  subject text, -- null for all subjects
  from_at bigint not null,
  until_at bigint not null,
  reason text not null,
  created_by text not null,
  created_at bigint not null
);

-- Keyed hashes of the data subjects that messages name; an empty hash marks a message whose payload must be read.
create table subject (
  app bigint not null,
  hash text not null,
  message bigint not null,
  primary key (app, hash, message)
) partition by range (message);

create table subject_default partition of subject default;

create index subject_message on subject (message);

-- The key of those hashes, and since when the application's present pointers index its messages.
create table subject_key (
  app bigint primary key,
  secret text not null,
  since bigint not null
);

-- The keys that sign reports.
create table signing_key (
  id text primary key,
  public_key text not null,
  secret text not null,
  created_at bigint not null
);

-- URLs that take webhooks of other senders in. Secrets and tokens are sealed.
create table source (
  key bigint primary key,
  id text not null,
  app bigint not null,
  uid text,
  name text not null,
  provider text not null,
  settings json not null,
  secrets json not null,
  tokens json not null,
  disabled boolean not null,
  metadata json not null,
  ingest_type text, -- the type under which svix.ingest created it
  owns_app boolean not null, -- the application was made for it
  created_at bigint not null,
  updated_at bigint not null
);

create index source_app on source (app, key);
create unique index source_uid on source (app, uid) where uid is not null;
create index source_named on source (uid) where uid is not null;

-- The arrivals at each source, written once a second at most.
create table source_arrivals (
  source bigint primary key,
  accepted bigint not null,
  accepted_at bigint,
  refused bigint not null,
  refused_at bigint,
  refused_in_row bigint not null, -- since the last one that was accepted
  refused_code text,
  samples bigint not null -- taken so far
);

create index source_arrivals_refused on source_arrivals (refused_at) where refused_in_row > 0;

-- The newest refused arrivals of each source.
create table source_sample (
  source bigint not null,
  slot integer not null, -- a new sample takes the place of the oldest
  at bigint not null,
  code text not null,
  reason text not null,
  method text not null,
  query text not null,
  address text not null,
  headers json not null,
  body bytea not null, -- its beginning
  bytes bigint, -- of the whole body; null when it was not read
  unsampled bigint not null,
  primary key (source, slot)
);

create index source_sample_at on source_sample (at);

-- Applications whose region changed, and the last endpoint whose lane was moved.
create table region_move (
  app bigint primary key,
  reached bigint not null default 0
);

-- Rows that were trimmed off the beginning of the audit log: their numbers, instants and the hashes at both ends, signed by the server.
create table audit_checkpoint (
  from_n bigint primary key,
  to_n bigint not null,
  previous text not null,
  hash text not null,
  first_at bigint not null,
  last_at bigint not null,
  at bigint not null,
  signature json not null
);

-- How far dead-letter files are written: the last letter in a file, by region. The empty region is that of processes which
-- write the letters of all regions.
create table dead_file (
  region text primary key,
  began_at bigint not null,
  died_at bigint not null,
  endpoint bigint not null,
  message bigint not null,
  writer text not null default '',
  taken_until bigint not null default 0
);

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

-- The number a process puts into the keys it makes; two with the same number notice by a key that is taken.
create sequence node as integer minvalue 0 maxvalue 31 cycle;
