-- Notices for operators, until they are sent. A notice keeps the names that its subjects had when it was written.
create table notice (
  key bigint generated always as identity primary key,
  at bigint not null,
  type text not null,
  app bigint not null,
  endpoint bigint not null,
  message bigint,
  data json not null
);
