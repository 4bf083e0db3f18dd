-- Rows that were trimmed off the beginning of the audit log: their numbers, instants and the hashes at both ends, signed by the server.
create table audit_checkpoint (
  from_n bigint primary key,
  to_n bigint not null,
  previous text not null,
  hash text not null,
  first_at bigint not null,
  last_at bigint not null,
  at bigint not null,
  signature json not null
);
