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

-- The headers with which the message arrived at a source; null for a message that was published.
alter table message add column arrived_headers text;
