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

-- The headers with which the message arrived at a source; null for a message that was published.
alter table message add column arrived_headers json;
