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
  deleted_at integer,
  -- How long the same content, or the same key sent with it, is one message; null for no time at all.
  dedupe_s integer,
  -- Settings of an application for all its endpoints, as JSON; null for none.
  settings text
) strict;

create unique index application_uid on application (uid) where uid is not null and deleted_at is null;

-- Applications with retention of their own.
create index application_retention on application (key)
  where deleted_at is null and (settings ->> 'retentionSeconds' is not null or settings ->> 'deadRetentionSeconds' is not null);

-- The application that owns the endpoints of operational webhooks. No other row can have its key and id: no caller finds it.
insert into application (key, id, uid, name, throttle_rate, metadata, created_at, updated_at)
values (0, 'management', null, 'Operational webhooks', null, '{}', 0, 0);

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
  deleted_at integer,
  -- How deliveries are sent. Pausing is taken back by an operator, disabling is not.
  method text not null default 'POST',
  paused integer not null default 0,
  -- How an endpoint gets its messages, beyond its rate (see domain/flow.ts), as JSON; null for the defaults.
  flow text,
  -- Credentials toward receivers, sealed; null for none. The expiry of the client certificate is in the open, for the doctor.
  auth text,
  client_certificate text,
  certificate_expires_at integer
) strict;

create unique index endpoint_uid on endpoint (app, uid) where uid is not null and deleted_at is null;
create index endpoint_app on endpoint (app, key);
create index endpoint_certificate on endpoint (certificate_expires_at) where certificate_expires_at is not null;

-- Those whose uid is `.` or `..`, which no client can name in a URL. The doctor reads them.
create index endpoint_folded on endpoint (uid) where uid in ('.', '..');

create table message (
  key integer primary key,
  id text not null,
  app integer not null,
  event_type text not null,
  event_id text,
  channels text,
  content_type text not null,
  endpoints text not null,
  body blob not null,
  -- The body of such a message is empty, and it is never sent again.
  expunged_at integer,
  tags text,
  headers text, -- sent along with every attempt
  deliver_at integer, -- null when its deliveries were due at once
  expires_at integer,
  ordering_key text,
  -- How its deliveries differ from plain ones, as JSON; null when none does.
  plan text,
  -- Why the body was erased: `delivered` when all deliveries had succeeded; null otherwise.
  erase_reason text,
  -- The context of the trace that the message belongs to; null when it belongs to none.
  trace text,
  -- The headers with which the message arrived at a source; null for a message that was published.
  arrived_headers text
) strict;

-- History: an application's messages in their order.
create index message_app on message (app);

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
  -- Ordered lanes: deliveries with the same number go one after the other, and a delivery that waits for its retry keeps its
  -- place until then.
  order_key integer,
  held_until integer,
  -- When it expires; null for never.
  expires_at integer,
  -- Which body it is sent with; null for the message's own.
  variant integer,
  primary key (endpoint, class, due_at, message)
) strict, without rowid;

create index pending_expires on pending (expires_at) where expires_at is not null;

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
  -- Bounded, without secrets; null without an answer, and once the answer is erased.
  response_headers text,
  -- The split of an attempt's time, as `writeTimings` writes it; null when it is unknown.
  timings text,
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
create index dead_endpoint on dead (endpoint, died_at);

-- The dead letters of all applications in their order.
create index dead_died on dead (died_at);

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
  not_before integer not null default 0, -- no sooner than this, by the last owner's word
  -- How well the receiver does, as its last owner reported at that instant: circuit, pace, how long it has been failing.
  health text,
  health_at integer not null default 0,
  -- The owner's last snapshot.
  snapshot text,
  snapshot_at integer not null default 0,
  -- The limit that bucket_full_at was counted by, as JSON: another one may be in force when the lane is claimed. `null` in JSON
  -- when there was no limit; null while no owner has stored it.
  bucket_limit text,
  -- The region whose workers may own the lane: the endpoint's, else its application's.
  region text not null default 'default'
) strict;

create index lane_owner on lane (owner) where owner is not null;
create index lane_due on lane (due_at) where owner is null and due_at is not null and region = 'default';
create index lane_due_elsewhere on lane (due_at) where owner is null and due_at is not null and region <> 'default';
create index lane_region_due on lane (region, due_at) where owner is null and due_at is not null and region <> 'default';

-- Finds the next application that has unowned lanes with an instant, and its lanes in the order of that instant, at one seek
-- each: while more lanes are due than a worker takes at once, applications take turns.
create index lane_app_due on lane (app, region, due_at) where owner is null and due_at is not null;

-- Ids are never used twice (autoincrement), so that a worker whose row was swept away stays fenced.
create table worker (
  id integer primary key autoincrement,
  description text not null,
  joined_at integer not null,
  lease_ms integer not null, -- bounds what a clock set back can add to lease_until
  lease_until integer not null,
  ended_at integer,
  report text, -- version, host, pid and attempts under way, as of the last renewal
  -- The regions that a worker serves, as JSON; null for all.
  regions text,
  -- A worker that is stopping takes no lanes: the others share them.
  leaving integer not null default 0
) strict;

create table api_key (
  key integer primary key,
  id text not null,
  name text not null,
  hash blob not null unique,
  scopes text not null,
  created_at integer not null,
  revoked_at integer,
  app integer, -- the one application it is for; null for all
  expires_at integer,
  last_used_at integer -- within a minute
) strict;

-- Deletions that still have rows elsewhere. A sweep removes those rows a few at a time, from due_at on: the endpoints
-- of an application behind the one reached, the waiting deliveries of an endpoint.
create table removal (
  key integer primary key,
  kind text not null,
  since integer not null,
  due_at integer not null,
  reached integer not null default 0
) strict;

create index removal_due on removal (due_at);

create table event_type (
  name text primary key,
  description text not null,
  archived integer not null,
  deprecated integer not null,
  schemas text,
  feature_flags text,
  group_name text,
  created_at integer not null,
  updated_at integer not null
) strict, without rowid;

-- Long work, done in steps by the worker that holds the lease. A step saves its cursor in the transaction of its work.
create table task (
  key integer primary key,
  id text not null,
  app integer,
  type text not null,
  status text not null,
  input text not null,
  cursor text,
  data text not null,
  epoch integer not null default 0, -- grows with every holder, who is thereby fenced from the next one's work
  lease_until integer not null default 0,
  created_at integer not null,
  updated_at integer not null,
  -- A paced task sleeps between its steps until this instant; any worker may resume it.
  rest_until integer not null default 0
) strict;

-- Ended tasks are removed when they are old.
create index task_ended on task (updated_at) where status in ('finished', 'failed', 'cancelled');
create index task_running on task (lease_until, rest_until) where status = 'running';

-- Tokens for the portal of one application. A row goes when the token ends.
create table app_token (
  key integer primary key,
  id text not null,
  app integer not null,
  hash blob not null unique,
  capabilities text not null,
  session_id text,
  created_at integer not null,
  expires_at integer not null,
  made_by integer, -- the API key that it ends with; null for the key of the settings
  feature_flags text -- whose event types it sees; null for all
) strict;

create index app_token_app on app_token (app);
create index app_token_expires on app_token (expires_at);

-- Encryption keys that may have sealed a record here, each with a text that it sealed: a wrong key is found at the start.
create table sealing_key (
  id text primary key,
  proof text not null
) strict, without rowid;

-- The log of changes and their actors. Rows are only appended; each row's hash covers the one before it.
create table audit (
  n integer primary key,
  id text not null,
  at integer not null,
  actor text not null,
  ip text not null,
  action text not null,
  app text,
  target text not null,
  before text,
  after text,
  hash text not null
) strict;

-- Actions that may happen once: a request with an Idempotency-Key, a publish within its application's dedupe window. A row
-- that has expired counts as missing. A publish leaves the message it became; any other request its answer, or neither while
-- it is under way. Rows lie by the day they expire, so that removing them rewrites whole pages and needs no second index:
-- hashes have no order, and each one written or deleted by itself costs a page of its own.
create table idempotency (
  day integer not null,
  hash text not null,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at integer not null,
  message integer,
  status integer,
  answer blob,
  primary key (day, hash)
) strict, without rowid;

-- Messages whose deliveries are not all in pending yet: those from position next of message.endpoints on are missing.
create table fan_out (
  message integer primary key,
  since integer not null, -- when its deliveries are due
  next integer not null
) strict;

-- Notices for operators, until they are sent. A notice keeps the names that its subjects had when it was written.
create table notice (
  key integer primary key autoincrement,
  at integer not null,
  type text not null,
  app integer not null,
  endpoint integer not null,
  message integer,
  data text not null
) strict;

-- Bodies that some endpoints get instead of the message's own (null: its own), and signatures that are made once.
-- Fixed when the message is accepted.
create table variant (
  message integer not null,
  n integer not null,
  body blob,
  signature text,
  primary key (message, n)
) strict;

-- The secrets that make the pseudonyms of an application's endpoints. A secret is sealed.
create table region (
  app integer not null,
  name text not null,
  secret text not null,
  created_at integer not null,
  primary key (app, name)
) strict, without rowid;

-- Windows in which deliveries of one kind become one: when each ends, and the message whose delivery waits for its end. A row
-- whose instant has passed counts as missing.
create table coalescing (
  endpoint integer not null,
  key text not null, -- what deliveries of one kind have in common, hashed
  message integer not null,
  due_at integer not null,
  primary key (endpoint, key)
) strict, without rowid;

create index coalescing_due on coalescing (due_at);

-- Deliveries that ended without being sent because another took their place.
create table coalesced (
  message integer not null,
  endpoint integer not null,
  at integer not null,
  successor integer not null, -- the message that took its place
  primary key (message, endpoint)
) strict, without rowid;

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
  updated_at integer not null,
  -- Headers of the messages that the schedule publishes; null for none.
  headers text
) strict;

create index schedule_app on schedule (app, key);
create unique index schedule_uid on schedule (app, uid) where uid is not null;
create index schedule_due on schedule (due_at) where due_at is not null;
create index schedule_folded on schedule (uid) where uid in ('.', '..');

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
  at integer not null,
  -- Bodies that are erased once all deliveries have succeeded are looked at again and again, and erased at `over_at` anyway.
  once_delivered integer not null default 0,
  over_at integer,
  -- Endpoints that the message was replayed to although it was not accepted for them: their deliveries need the body, too.
  added_endpoints text not null default '[]'
) strict;

create index payload_end_at on payload_end (at);

-- Sums of what happened by the minute and by the hour. Each process writes rows of its own; the leader merges them later.
create table history (
  scope integer not null, -- the key of an application or an endpoint, or -1 for the server
  span integer not null, -- how long, in milliseconds
  at integer not null, -- the start of the minute or hour
  writer text not null, -- empty for a merged row
  sums text not null,
  primary key (scope, span, at, writer)
) strict, without rowid;

create index history_at on history (span, at);
create index history_unfolded on history (at, scope) where writer <> '';

-- Sessions of browsers, and links that sign in once. Each belongs to an API key, to an application token, or to the admin
-- key of the settings, whose hash it keeps. A row goes when the session ends or the link is used.
create table web_session (
  key integer primary key,
  id text not null,
  kind text not null, -- session, link
  hash blob not null unique,
  owner_kind text not null, -- api_key, app_token, admin
  owner integer not null, -- the key of the row; 0 for the admin key of the settings
  admin_hash blob,
  user_agent text,
  address text,
  created_at integer not null,
  expires_at integer not null,
  last_used_at integer -- within a minute
) strict;

create index web_session_owner on web_session (owner_kind, owner, key);
create index web_session_expires on web_session (expires_at);

-- How the portal of an application looks. A table of its own: the logo is large, and the application's row is often read.
create table portal_look (
  app integer primary key,
  name text,
  logo text, -- a data URL
  color text -- #rrggbb
) strict;

-- Alerts. The leader steps their states; a version that grows keeps a second leader from doing the same.
create table alert (
  rule text not null,
  subject text not null, -- empty for the server, else the id of an endpoint, or a worker
  version integer not null,
  state text not null,
  primary key (rule, subject)
) strict;

-- Times in which alerts are not announced. A row goes when its time is over, with the next one that is made.
create table alert_silence (
  key integer primary key,
  id text not null,
  rule text, -- null for all rules
  subject text, -- null for all subjects
  from_at integer not null,
  until_at integer not null,
  reason text not null,
  created_by text not null,
  created_at integer not null
) strict;

-- Keyed hashes of the data subjects that messages name; an empty hash marks a message whose payload must be read.
create table subject (
  app integer not null,
  hash text not null,
  message integer not null,
  primary key (app, hash, message)
) strict, without rowid;

create index subject_message on subject (message);

-- The key of those hashes, and since when the application's present pointers index its messages.
create table subject_key (
  app integer primary key,
  secret text not null,
  since integer not null
) strict;

-- The keys that sign reports.
create table signing_key (
  id text primary key,
  public_key text not null,
  secret text not null,
  created_at integer not null
) strict, without rowid;

-- URLs that take webhooks of other senders in. Secrets and tokens are sealed.
create table source (
  key integer primary key,
  id text not null,
  app integer not null,
  uid text,
  name text not null,
  provider text not null,
  settings text not null,
  secrets text not null,
  tokens text not null,
  disabled integer not null,
  metadata text not null,
  ingest_type text, -- the type under which svix.ingest created it
  owns_app integer not null, -- the application was made for it
  created_at integer not null,
  updated_at integer not null
) strict;

create index source_app on source (app, key);
create unique index source_uid on source (app, uid) where uid is not null;
create index source_named on source (uid) where uid is not null;

-- The arrivals at each source, written once a second at most.
create table source_arrivals (
  source integer primary key,
  accepted integer not null,
  accepted_at integer,
  refused integer not null,
  refused_at integer,
  refused_in_row integer not null, -- since the last one that was accepted
  refused_code text,
  samples integer not null -- taken so far
) strict;

create index source_arrivals_refused on source_arrivals (refused_at) where refused_in_row > 0;

-- The newest refused arrivals of each source.
create table source_sample (
  source integer not null,
  slot integer not null, -- a new sample takes the place of the oldest
  at integer not null,
  code text not null,
  reason text not null,
  method text not null,
  query text not null,
  address text not null,
  headers text not null,
  body blob not null, -- its beginning
  bytes integer, -- of the whole body; null when it was not read
  unsampled integer not null,
  primary key (source, slot)
) strict, without rowid;

create index source_sample_at on source_sample (at);

-- Applications whose region changed, and the last endpoint whose lane was moved.
create table region_move (
  app integer primary key,
  reached integer not null default 0
) strict;

-- Rows that were trimmed off the beginning of the audit log: their numbers, instants and the hashes at both ends, signed by the server.
create table audit_checkpoint (
  from_n integer primary key,
  to_n integer not null,
  previous text not null,
  hash text not null,
  first_at integer not null,
  last_at integer not null,
  at integer not null,
  signature text not null
) strict;

-- How far dead-letter files are written: the last letter in a file, by region. The empty region is that of processes which
-- write the letters of all regions.
create table dead_file (
  region text primary key,
  began_at integer not null,
  died_at integer not null,
  endpoint integer not null,
  message integer not null,
  writer text not null default '',
  taken_until integer not null default 0
);

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
