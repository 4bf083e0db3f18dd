-- What operators are to be told, until it was sent. It names whom it concerns as they were called then.
create table notice (
  key bigint generated always as identity primary key,
  at bigint not null,
  type text not null,
  app bigint not null,
  endpoint bigint not null,
  message bigint,
  data json not null
);
