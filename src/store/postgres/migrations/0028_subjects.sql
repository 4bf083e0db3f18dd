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
