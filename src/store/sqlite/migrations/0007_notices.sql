-- Notices for operators, until they are sent. A notice keeps the names that its subjects had when it was written.
create table notice (
  key integer primary key autoincrement,
  at integer not null,
  type text not null,
  app integer not null,
  endpoint integer not null,
  message integer,
  data text not null
) strict;
