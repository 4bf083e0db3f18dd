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
