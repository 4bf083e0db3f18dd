create table alert (
  rule text not null,
  subject text not null,
  version bigint not null,
  state json not null
);
CREATE UNIQUE INDEX alert_pkey ON public.alert USING btree (rule, subject);

create table alert_silence (
  key bigint not null,
  id text not null,
  rule text,
  subject text,
  from_at bigint not null,
  until_at bigint not null,
  reason text not null,
  created_by text not null,
  created_at bigint not null
);
CREATE UNIQUE INDEX alert_silence_pkey ON public.alert_silence USING btree (key);

create table api_key (
  key bigint not null,
  id text not null,
  name text not null,
  hash bytea not null,
  scopes json not null,
  created_at bigint not null,
  revoked_at bigint,
  app bigint,
  expires_at bigint,
  last_used_at bigint
);
CREATE UNIQUE INDEX api_key_hash_key ON public.api_key USING btree (hash);
CREATE UNIQUE INDEX api_key_pkey ON public.api_key USING btree (key);

create table app_share (
  app bigint not null,
  worker bigint not null,
  rate bigint not null,
  slots bigint not null,
  rate_wanted bigint not null,
  slots_wanted bigint not null
) with (fillfactor=50, autovacuum_vacuum_threshold=100, autovacuum_vacuum_cost_delay=0);
CREATE UNIQUE INDEX app_share_pkey ON public.app_share USING btree (app, worker);
CREATE INDEX app_share_worker ON public.app_share USING btree (worker);

create table app_token (
  key bigint not null,
  id text not null,
  app bigint not null,
  hash bytea not null,
  capabilities json not null,
  session_id text,
  created_at bigint not null,
  expires_at bigint not null,
  made_by bigint,
  feature_flags json
);
CREATE INDEX app_token_app ON public.app_token USING btree (app);
CREATE INDEX app_token_expires ON public.app_token USING btree (expires_at);
CREATE UNIQUE INDEX app_token_hash_key ON public.app_token USING btree (hash);
CREATE UNIQUE INDEX app_token_pkey ON public.app_token USING btree (key);

create table application (
  key bigint not null,
  id text not null,
  uid text,
  name text not null,
  throttle_rate integer,
  metadata json not null,
  version bigint not null default 1,
  created_at bigint not null,
  updated_at bigint not null,
  deleted_at bigint,
  dedupe_s integer,
  settings json
);
CREATE UNIQUE INDEX application_pkey ON public.application USING btree (key);
CREATE INDEX application_retention ON public.application USING btree (key) WHERE ((deleted_at IS NULL) AND (((settings ->> 'retentionSeconds'::text) IS NOT NULL) OR ((settings ->> 'deadRetentionSeconds'::text) IS NOT NULL)));
CREATE UNIQUE INDEX application_uid ON public.application USING btree (uid) WHERE ((uid IS NOT NULL) AND (deleted_at IS NULL));

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
  response_headers json,
  timings text
) partition by RANGE (message);
CREATE INDEX attempt_endpoint ON ONLY public.attempt USING btree (endpoint, at);
CREATE UNIQUE INDEX attempt_pkey ON ONLY public.attempt USING btree (message, endpoint, n);

create table attempt_default (
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
  response_headers json,
  timings text
); -- partition: DEFAULT
CREATE INDEX attempt_default_endpoint_at_idx ON public.attempt_default USING btree (endpoint, at);
CREATE UNIQUE INDEX attempt_default_pkey ON public.attempt_default USING btree (message, endpoint, n);

create table audit (
  n bigint not null,
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
CREATE UNIQUE INDEX audit_pkey ON public.audit USING btree (n);

create table audit_checkpoint (
  from_n bigint not null,
  to_n bigint not null,
  previous text not null,
  hash text not null,
  first_at bigint not null,
  last_at bigint not null,
  at bigint not null,
  signature json not null
);
CREATE UNIQUE INDEX audit_checkpoint_pkey ON public.audit_checkpoint USING btree (from_n);

create table coalesced (
  message bigint not null,
  endpoint bigint not null,
  at bigint not null,
  successor bigint not null
) partition by RANGE (message);
CREATE UNIQUE INDEX coalesced_pkey ON ONLY public.coalesced USING btree (message, endpoint);

create table coalesced_default (
  message bigint not null,
  endpoint bigint not null,
  at bigint not null,
  successor bigint not null
); -- partition: DEFAULT
CREATE UNIQUE INDEX coalesced_default_pkey ON public.coalesced_default USING btree (message, endpoint);

create table coalescing (
  endpoint bigint not null,
  key text not null,
  message bigint not null,
  replaced bigint,
  due_at bigint not null
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0.02, autovacuum_vacuum_cost_delay=0);
CREATE INDEX coalescing_due ON public.coalescing USING btree (due_at);
CREATE UNIQUE INDEX coalescing_pkey ON public.coalescing USING btree (endpoint, key);

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
  response bytea
);
CREATE INDEX dead_app ON public.dead USING btree (app, died_at);
CREATE INDEX dead_died ON public.dead USING btree (((died_at + 0)));
CREATE INDEX dead_endpoint ON public.dead USING btree (((endpoint + 0)), died_at);
CREATE UNIQUE INDEX dead_pkey ON public.dead USING btree (endpoint, message);

create table dead_file (
  region text not null,
  began_at bigint not null,
  died_at bigint not null,
  endpoint bigint not null,
  message bigint not null,
  writer text not null default ''::text,
  taken_until bigint not null default 0
);
CREATE UNIQUE INDEX dead_file_pkey ON public.dead_file USING btree (region);

create table endpoint (
  key bigint not null,
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
  method text not null default 'POST'::text,
  paused boolean not null default false,
  flow json,
  auth json,
  client_certificate json,
  certificate_expires_at bigint
);
CREATE INDEX endpoint_app ON public.endpoint USING btree (app, key);
CREATE INDEX endpoint_certificate ON public.endpoint USING btree (certificate_expires_at) WHERE (certificate_expires_at IS NOT NULL);
CREATE INDEX endpoint_folded ON public.endpoint USING btree (uid) WHERE (uid = ANY (ARRAY['.'::text, '..'::text]));
CREATE UNIQUE INDEX endpoint_pkey ON public.endpoint USING btree (key);
CREATE UNIQUE INDEX endpoint_uid ON public.endpoint USING btree (app, uid) WHERE ((uid IS NOT NULL) AND (deleted_at IS NULL));

create table event_id (
  app bigint not null,
  event_id text not null,
  message bigint not null
);
CREATE UNIQUE INDEX event_id_pkey ON public.event_id USING btree (app, event_id);

create table event_type (
  name text not null,
  description text not null,
  archived boolean not null,
  deprecated boolean not null,
  schemas json,
  feature_flags json,
  group_name text,
  created_at bigint not null,
  updated_at bigint not null
);
CREATE UNIQUE INDEX event_type_pkey ON public.event_type USING btree (name);

create table fan_out (
  message bigint not null,
  since bigint not null,
  next integer not null
);
CREATE UNIQUE INDEX fan_out_pkey ON public.fan_out USING btree (message);

create table history (
  scope bigint not null,
  span integer not null,
  at bigint not null,
  writer text not null,
  sums json not null
) with (fillfactor=70);
CREATE INDEX history_at ON public.history USING btree (((span + 0)), ((at + 0)));
CREATE UNIQUE INDEX history_pkey ON public.history USING btree (scope, span, at, writer);
CREATE INDEX history_unfolded ON public.history USING btree (at, scope) WHERE (writer <> ''::text);

create table idempotency (
  hash text not null,
  fingerprint text not null,
  expires_at bigint not null,
  message bigint,
  status integer,
  answer bytea
);
CREATE INDEX idempotency_expires ON public.idempotency USING btree (expires_at);
CREATE UNIQUE INDEX idempotency_pkey ON public.idempotency USING btree (hash);

create table lane (
  endpoint bigint not null,
  app bigint not null,
  due_at bigint,
  owner bigint,
  epoch bigint not null default 0,
  stopped boolean not null default false,
  clean boolean not null default true,
  bucket_full_at bigint not null default 0,
  hold_until bigint not null default 0,
  not_before bigint not null default 0,
  health text,
  health_at bigint not null default 0,
  snapshot text,
  snapshot_at bigint not null default 0,
  bucket_limit text,
  region text not null default 'default'::text
) with (fillfactor=50, autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0);
CREATE INDEX lane_app_due ON public.lane USING btree (app, region, due_at) WHERE ((owner IS NULL) AND (due_at IS NOT NULL));
CREATE INDEX lane_due ON public.lane USING btree (due_at) WHERE ((owner IS NULL) AND (due_at IS NOT NULL) AND (region = 'default'::text));
CREATE INDEX lane_due_elsewhere ON public.lane USING btree (due_at) WHERE ((owner IS NULL) AND (due_at IS NOT NULL) AND (region <> 'default'::text));
CREATE INDEX lane_owner ON public.lane USING btree (owner) WHERE (owner IS NOT NULL);
CREATE UNIQUE INDEX lane_pkey ON public.lane USING btree (endpoint);
CREATE INDEX lane_region_due ON public.lane USING btree (region, due_at) WHERE ((owner IS NULL) AND (due_at IS NOT NULL) AND (region <> 'default'::text));

create table leader (
  one smallint not null,
  candidate text not null,
  description text not null,
  epoch bigint not null,
  since bigint not null,
  lease_ms bigint not null,
  lease_until bigint not null
);
CREATE UNIQUE INDEX leader_pkey ON public.leader USING btree (one);

create table message (
  key bigint not null,
  id text not null,
  app bigint not null,
  event_type text not null,
  event_id text,
  channels json,
  content_type text not null,
  endpoints bigint[] not null,
  body bytea not null,
  expunged_at bigint,
  tags json,
  headers json,
  deliver_at bigint,
  expires_at bigint,
  ordering_key text,
  plan json,
  erase_reason text,
  trace text,
  arrived_headers json
) partition by RANGE (key);
CREATE INDEX message_app ON ONLY public.message USING btree (app, key);
CREATE UNIQUE INDEX message_pkey ON ONLY public.message USING btree (key);

create table message_default (
  key bigint not null,
  id text not null,
  app bigint not null,
  event_type text not null,
  event_id text,
  channels json,
  content_type text not null,
  endpoints bigint[] not null,
  body bytea not null,
  expunged_at bigint,
  tags json,
  headers json,
  deliver_at bigint,
  expires_at bigint,
  ordering_key text,
  plan json,
  erase_reason text,
  trace text,
  arrived_headers json
); -- partition: DEFAULT
CREATE INDEX message_default_app_key_idx ON public.message_default USING btree (app, key);
CREATE UNIQUE INDEX message_default_pkey ON public.message_default USING btree (key);

create table migration (
  version integer not null,
  name text not null,
  applied_at bigint not null,
  works_since integer
);
CREATE UNIQUE INDEX migration_pkey ON public.migration USING btree (version);

create table notice (
  key bigint generated always as identity not null,
  at bigint not null,
  type text not null,
  app bigint not null,
  endpoint bigint not null,
  message bigint,
  data json not null
);
CREATE UNIQUE INDEX notice_pkey ON public.notice USING btree (key);

create table payload_end (
  message bigint not null,
  app bigint not null,
  at bigint not null,
  once_delivered boolean not null default false,
  over_at bigint,
  added_endpoints bigint[] not null default '{}'::bigint[]
);
CREATE INDEX payload_end_at ON public.payload_end USING btree (at);
CREATE UNIQUE INDEX payload_end_pkey ON public.payload_end USING btree (message);

create table pending (
  endpoint bigint not null,
  class smallint not null,
  due_at bigint not null,
  message bigint not null,
  since bigint not null,
  attempts integer not null,
  prior_attempts integer not null,
  order_key bigint,
  held_until bigint,
  expires_at bigint,
  variant smallint
) with (autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_insert_scale_factor=0.1, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0.2);
CREATE INDEX pending_expires ON public.pending USING btree (expires_at) WHERE (expires_at IS NOT NULL);
CREATE UNIQUE INDEX pending_pkey ON public.pending USING btree (endpoint, class, due_at, message);

create table portal_look (
  app bigint not null,
  name text,
  logo text,
  color text
);
CREATE UNIQUE INDEX portal_look_pkey ON public.portal_look USING btree (app);

create table region (
  app bigint not null,
  name text not null,
  secret text not null,
  created_at bigint not null
);
CREATE UNIQUE INDEX region_pkey ON public.region USING btree (app, name);

create table region_move (
  app bigint not null,
  reached bigint not null default 0
);
CREATE UNIQUE INDEX region_move_pkey ON public.region_move USING btree (app);

create table removal (
  key bigint not null,
  kind text not null,
  since bigint not null,
  due_at bigint not null,
  reached bigint not null default 0
);
CREATE INDEX removal_due ON public.removal USING btree (due_at);
CREATE UNIQUE INDEX removal_pkey ON public.removal USING btree (key);

create table saved_view (
  key bigint not null,
  id text not null,
  uid text,
  name text not null,
  of text not null,
  filter json not null,
  created_at bigint not null,
  updated_at bigint not null
);
CREATE UNIQUE INDEX saved_view_pkey ON public.saved_view USING btree (key);
CREATE UNIQUE INDEX saved_view_uid ON public.saved_view USING btree (uid) WHERE (uid IS NOT NULL);

create table schedule (
  key bigint not null,
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
  reached_at bigint not null,
  next_at bigint,
  due_at bigint,
  failures integer not null default 0,
  runs json not null default '[]'::json,
  revision bigint not null default 0,
  created_at bigint not null,
  updated_at bigint not null,
  headers json,
  endpoint text
);
CREATE INDEX schedule_app ON public.schedule USING btree (app, key);
CREATE INDEX schedule_due ON public.schedule USING btree (due_at) WHERE (due_at IS NOT NULL);
CREATE INDEX schedule_folded ON public.schedule USING btree (uid) WHERE (uid = ANY (ARRAY['.'::text, '..'::text]));
CREATE UNIQUE INDEX schedule_pkey ON public.schedule USING btree (key);
CREATE UNIQUE INDEX schedule_uid ON public.schedule USING btree (app, uid) WHERE (uid IS NOT NULL);

create table sealing_key (
  id text not null,
  proof text not null
);
CREATE UNIQUE INDEX sealing_key_pkey ON public.sealing_key USING btree (id);

create table signing_key (
  id text not null,
  public_key text not null,
  secret text not null,
  created_at bigint not null
);
CREATE UNIQUE INDEX signing_key_pkey ON public.signing_key USING btree (id);

create table sluice_inbox (
  id bigint generated always as identity not null,
  app text not null,
  event_type text not null,
  payload text not null,
  options json,
  created_at bigint not null default ((EXTRACT(epoch FROM statement_timestamp()) * (1000)::numeric))::bigint,
  refused_at bigint,
  code text,
  error text
) with (autovacuum_vacuum_scale_factor=0.01, autovacuum_vacuum_threshold=1000, autovacuum_vacuum_cost_delay=0);
CREATE UNIQUE INDEX sluice_inbox_pkey ON public.sluice_inbox USING btree (id);
CREATE INDEX sluice_inbox_refused ON public.sluice_inbox USING btree (refused_at) WHERE (refused_at IS NOT NULL);
CREATE INDEX sluice_inbox_waiting ON public.sluice_inbox USING btree (app, id) WHERE (refused_at IS NULL);

create table source (
  key bigint not null,
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
  ingest_type text,
  owns_app boolean not null,
  created_at bigint not null,
  updated_at bigint not null
);
CREATE INDEX source_app ON public.source USING btree (app, key);
CREATE INDEX source_named ON public.source USING btree (uid) WHERE (uid IS NOT NULL);
CREATE UNIQUE INDEX source_pkey ON public.source USING btree (key);
CREATE UNIQUE INDEX source_uid ON public.source USING btree (app, uid) WHERE (uid IS NOT NULL);

create table source_arrivals (
  source bigint not null,
  accepted bigint not null,
  accepted_at bigint,
  refused bigint not null,
  refused_at bigint,
  refused_in_row bigint not null,
  refused_code text,
  samples bigint not null
);
CREATE UNIQUE INDEX source_arrivals_pkey ON public.source_arrivals USING btree (source);
CREATE INDEX source_arrivals_refused ON public.source_arrivals USING btree (refused_at) WHERE (refused_in_row > 0);

create table source_sample (
  source bigint not null,
  slot integer not null,
  at bigint not null,
  code text not null,
  reason text not null,
  method text not null,
  query text not null,
  address text not null,
  headers json not null,
  body bytea not null,
  bytes bigint,
  unsampled bigint not null
);
CREATE INDEX source_sample_at ON public.source_sample USING btree (at);
CREATE UNIQUE INDEX source_sample_pkey ON public.source_sample USING btree (source, slot);

create table subject (
  app bigint not null,
  hash text not null,
  message bigint not null
) partition by RANGE (message);
CREATE INDEX subject_message ON ONLY public.subject USING btree (message);
CREATE UNIQUE INDEX subject_pkey ON ONLY public.subject USING btree (app, hash, message);

create table subject_default (
  app bigint not null,
  hash text not null,
  message bigint not null
); -- partition: DEFAULT
CREATE INDEX subject_default_message_idx ON public.subject_default USING btree (message);
CREATE UNIQUE INDEX subject_default_pkey ON public.subject_default USING btree (app, hash, message);

create table subject_key (
  app bigint not null,
  secret text not null,
  since bigint not null
);
CREATE UNIQUE INDEX subject_key_pkey ON public.subject_key USING btree (app);

create table task (
  key bigint not null,
  id text not null,
  app bigint,
  type text not null,
  status text not null,
  input json not null,
  cursor json,
  data json not null,
  epoch bigint not null default 0,
  lease_until bigint not null default 0,
  created_at bigint not null,
  updated_at bigint not null,
  rest_until bigint not null default 0
);
CREATE INDEX task_ended ON public.task USING btree (updated_at) WHERE (status = ANY (ARRAY['finished'::text, 'failed'::text, 'cancelled'::text]));
CREATE UNIQUE INDEX task_pkey ON public.task USING btree (key);
CREATE INDEX task_running ON public.task USING btree (lease_until, rest_until) WHERE (status = 'running'::text);

create table variant (
  message bigint not null,
  n smallint not null,
  body bytea,
  signature text
) partition by RANGE (message);
CREATE UNIQUE INDEX variant_pkey ON ONLY public.variant USING btree (message, n);

create table variant_default (
  message bigint not null,
  n smallint not null,
  body bytea,
  signature text
); -- partition: DEFAULT
CREATE UNIQUE INDEX variant_default_pkey ON public.variant_default USING btree (message, n);

create table web_session (
  key bigint not null,
  id text not null,
  kind text not null,
  hash bytea not null,
  owner_kind text not null,
  owner bigint not null,
  admin_hash bytea,
  user_agent text,
  address text,
  created_at bigint not null,
  expires_at bigint not null,
  last_used_at bigint
);
CREATE INDEX web_session_expires ON public.web_session USING btree (expires_at);
CREATE UNIQUE INDEX web_session_hash_key ON public.web_session USING btree (hash);
CREATE INDEX web_session_owner ON public.web_session USING btree (owner_kind, owner, key);
CREATE UNIQUE INDEX web_session_pkey ON public.web_session USING btree (key);

create table worker (
  id bigint generated always as identity not null,
  description text not null,
  joined_at bigint not null,
  lease_ms bigint not null,
  lease_until bigint not null,
  ended_at bigint,
  report json,
  regions text[],
  leaving boolean not null default false,
  session bigint
) with (fillfactor=50, autovacuum_vacuum_threshold=100, autovacuum_vacuum_cost_delay=0);
CREATE UNIQUE INDEX worker_pkey ON public.worker USING btree (id);

create sequence node as integer minvalue 0 maxvalue 31 cycle;

create sequence notice_key_seq as bigint minvalue 1 maxvalue 9223372036854775807;
