-- The files that dead letters are appended to. The row without an id says that letters are kept for a file. The first `bytes`
-- bytes of a file are final; a write that was interrupted left at most `reserved`.
create table dead_file (
  id text primary key,
  part integer not null,
  bytes bigint not null,
  reserved bigint not null
);

-- Dead letters that no file holds yet.
create table unfiled (
  key bigint generated always as identity primary key,
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
create index unfiled_message on unfiled (message);
