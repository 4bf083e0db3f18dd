-- The files that dead letters are appended to. The row without an id says that letters are kept for a file. The first `bytes`
-- bytes of a file are final; a write that was interrupted left at most `reserved`.
create table dead_file (
  id text primary key,
  part integer not null,
  bytes integer not null,
  reserved integer not null
) strict, without rowid;

-- Dead letters that no file holds yet. A key is never used again: another process may still name it.
create table unfiled (
  key integer primary key autoincrement,
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
  response blob
) strict;
create index unfiled_message on unfiled (message);
