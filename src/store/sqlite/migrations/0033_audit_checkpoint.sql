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
