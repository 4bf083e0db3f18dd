-- What operators are to be told, until it was sent. It names whom it concerns as they were called then.
create table notice (
  key integer primary key autoincrement,
  at integer not null,
  type text not null,
  app integer not null,
  endpoint integer not null,
  message integer,
  data text not null
) strict;
