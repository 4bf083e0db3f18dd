CREATE TABLE alert (
  rule text not null,
  subject text not null, -- empty for the server, else the id of an endpoint, or a worker
  version integer not null,
  state text not null,
  primary key (rule, subject)
) strict;

CREATE TABLE alert_silence (
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

CREATE TABLE api_key (
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

CREATE TABLE app_share (
  app integer not null,
  worker integer not null,
  rate integer not null,
  slots integer not null,
  rate_wanted integer not null,
  slots_wanted integer not null,
  primary key (app, worker)
) strict, without rowid;

CREATE INDEX app_share_worker on app_share (worker);

CREATE TABLE app_token (
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

CREATE INDEX app_token_app on app_token (app);

CREATE INDEX app_token_expires on app_token (expires_at);

CREATE TABLE application (
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

CREATE INDEX application_retention on application (key)
  where deleted_at is null and (settings ->> 'retentionSeconds' is not null or settings ->> 'deadRetentionSeconds' is not null);

CREATE UNIQUE INDEX application_uid on application (uid) where uid is not null and deleted_at is null;

CREATE TABLE attempt (
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

CREATE INDEX attempt_endpoint on attempt (endpoint, at);

CREATE TABLE audit (
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

CREATE TABLE audit_checkpoint (
  from_n integer primary key,
  to_n integer not null,
  previous text not null,
  hash text not null,
  first_at integer not null,
  last_at integer not null,
  at integer not null,
  signature text not null
) strict;

CREATE TABLE coalesced (
  message integer not null,
  endpoint integer not null,
  at integer not null,
  successor integer not null, -- the message that took its place
  primary key (message, endpoint)
) strict, without rowid;

CREATE TABLE coalescing (
  endpoint integer not null,
  key text not null, -- what deliveries of one kind have in common, hashed
  message integer not null,
  due_at integer not null,
  primary key (endpoint, key)
) strict, without rowid;

CREATE INDEX coalescing_due on coalescing (due_at);

CREATE TABLE dead (
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

CREATE INDEX dead_app on dead (app, died_at);

CREATE INDEX dead_died on dead (died_at);

CREATE INDEX dead_endpoint on dead (endpoint, died_at);

CREATE TABLE dead_file (
  region text primary key,
  began_at integer not null,
  died_at integer not null,
  endpoint integer not null,
  message integer not null,
  writer text not null default '',
  taken_until integer not null default 0
);

CREATE TABLE endpoint (
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

CREATE INDEX endpoint_app on endpoint (app, key);

CREATE INDEX endpoint_certificate on endpoint (certificate_expires_at) where certificate_expires_at is not null;

CREATE INDEX endpoint_folded on endpoint (uid) where uid in ('.', '..');

CREATE UNIQUE INDEX endpoint_uid on endpoint (app, uid) where uid is not null and deleted_at is null;

CREATE TABLE event_id (
  app integer not null,
  event_id text not null,
  message integer not null,
  primary key (app, event_id)
) strict, without rowid;

CREATE TABLE event_type (
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

CREATE TABLE fan_out (
  message integer primary key,
  since integer not null, -- when its deliveries are due
  next integer not null
) strict;

CREATE TABLE history (
  scope integer not null, -- the key of an application or an endpoint, or -1 for the server
  span integer not null, -- how long, in milliseconds
  at integer not null, -- the start of the minute or hour
  writer text not null, -- empty for a merged row
  sums text not null,
  primary key (scope, span, at, writer)
) strict, without rowid;

CREATE INDEX history_at on history (span, at);

CREATE INDEX history_unfolded on history (at, scope) where writer <> '';

CREATE TABLE lane (
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

CREATE INDEX lane_app_due on lane (app, region, due_at) where owner is null and due_at is not null;

CREATE INDEX lane_due on lane (due_at) where owner is null and due_at is not null and region = 'default';

CREATE INDEX lane_due_elsewhere on lane (due_at) where owner is null and due_at is not null and region <> 'default';

CREATE INDEX lane_owner on lane (owner) where owner is not null;

CREATE INDEX lane_region_due on lane (region, due_at) where owner is null and due_at is not null and region <> 'default';

CREATE TABLE leader (
  one integer primary key check (one = 1),
  candidate text not null,
  description text not null,
  epoch integer not null, -- grows with every leader
  since integer not null,
  lease_ms integer not null, -- bounds what a clock set back can add to lease_until
  lease_until integer not null
) strict;

CREATE TABLE message (
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

CREATE INDEX message_app on message (app);

CREATE TABLE migration (
    version integer primary key,
    name text not null,
    applied_at integer not null,
    works_since integer -- null: only programs that know this migration work behind it
  ) strict;

CREATE TABLE notice (
  key integer primary key autoincrement,
  at integer not null,
  type text not null,
  app integer not null,
  endpoint integer not null,
  message integer,
  data text not null
) strict;

CREATE TABLE payload_end (
  message integer primary key,
  app integer not null,
  at integer not null,
  -- Bodies that are erased once all deliveries have succeeded are looked at again and again, and erased at `over_at` anyway.
  once_delivered integer not null default 0,
  over_at integer,
  -- Endpoints that the message was replayed to although it was not accepted for them: their deliveries need the body, too.
  added_endpoints text not null default '[]'
) strict;

CREATE INDEX payload_end_at on payload_end (at);

CREATE TABLE pending (
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

CREATE INDEX pending_expires on pending (expires_at) where expires_at is not null;

CREATE TABLE portal_look (
  app integer primary key,
  name text,
  logo text, -- a data URL
  color text -- #rrggbb
) strict;

CREATE TABLE region (
  app integer not null,
  name text not null,
  secret text not null,
  created_at integer not null,
  primary key (app, name)
) strict, without rowid;

CREATE TABLE region_move (
  app integer primary key,
  reached integer not null default 0
) strict;

CREATE TABLE removal (
  key integer primary key,
  kind text not null,
  since integer not null,
  due_at integer not null,
  reached integer not null default 0
) strict;

CREATE INDEX removal_due on removal (due_at);

CREATE TABLE saved_view (
  key integer primary key,
  id text not null,
  uid text,
  name text not null,
  of text not null, -- the list that it filters
  filter text not null, -- its parts as JSON
  created_at integer not null,
  updated_at integer not null
) strict;

CREATE UNIQUE INDEX saved_view_uid on saved_view (uid) where uid is not null;

CREATE TABLE schedule (
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
, endpoint text) strict;

CREATE INDEX schedule_app on schedule (app, key);

CREATE INDEX schedule_due on schedule (due_at) where due_at is not null;

CREATE INDEX schedule_folded on schedule (uid) where uid in ('.', '..');

CREATE UNIQUE INDEX schedule_uid on schedule (app, uid) where uid is not null;

CREATE TABLE sealing_key (
  id text primary key,
  proof text not null
) strict, without rowid;

CREATE TABLE signing_key (
  id text primary key,
  public_key text not null,
  secret text not null,
  created_at integer not null
) strict, without rowid;

CREATE TABLE sluice_inbox (
  id integer primary key autoincrement, -- never used twice
  app text not null, -- the id or uid of an application
  event_type text not null,
  payload any not null, -- text, or a blob
  options text, -- the other fields of a message, as the API has them, as JSON
  created_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer)),
  refused_at integer,
  code text, -- of the error; null while the row waits
  error text
) strict;

CREATE INDEX sluice_inbox_refused on sluice_inbox (refused_at) where refused_at is not null;

CREATE INDEX sluice_inbox_waiting on sluice_inbox (app, id) where refused_at is null;

CREATE TABLE source (
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

CREATE INDEX source_app on source (app, key);

CREATE TABLE source_arrivals (
  source integer primary key,
  accepted integer not null,
  accepted_at integer,
  refused integer not null,
  refused_at integer,
  refused_in_row integer not null, -- since the last one that was accepted
  refused_code text,
  samples integer not null -- taken so far
) strict;

CREATE INDEX source_arrivals_refused on source_arrivals (refused_at) where refused_in_row > 0;

CREATE INDEX source_named on source (uid) where uid is not null;

CREATE TABLE source_sample (
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

CREATE INDEX source_sample_at on source_sample (at);

CREATE UNIQUE INDEX source_uid on source (app, uid) where uid is not null;

CREATE TABLE subject (
  app integer not null,
  hash text not null,
  message integer not null,
  primary key (app, hash, message)
) strict, without rowid;

CREATE TABLE subject_key (
  app integer primary key,
  secret text not null,
  since integer not null
) strict;

CREATE INDEX subject_message on subject (message);

CREATE TABLE taken_hash (
  day integer not null,
  seq integer not null,
  mark integer not null, -- random: tells this row from one that got its number after it was undone
  hash text not null,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at integer not null, -- 0: the hash was freed
  message integer,
  status integer,
  answer blob,
  primary key (day, seq)
) strict, without rowid;

CREATE TABLE taken_run (
  day integer not null,
  level integer not null,
  run integer not null,
  slice integer not null,
  filter blob not null,
  entries blob not null, -- 32 bits of a hash, and a seq, for each row
  primary key (day, level, run, slice)
) strict;

CREATE TABLE task (
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

CREATE INDEX task_ended on task (updated_at) where status in ('finished', 'failed', 'cancelled');

CREATE INDEX task_running on task (lease_until, rest_until) where status = 'running';

CREATE TABLE variant (
  message integer not null,
  n integer not null,
  body blob,
  signature text,
  primary key (message, n)
) strict;

CREATE TABLE web_session (
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

CREATE INDEX web_session_expires on web_session (expires_at);

CREATE INDEX web_session_owner on web_session (owner_kind, owner, key);

CREATE TABLE worker (
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
