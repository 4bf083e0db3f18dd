-- What some endpoints get instead of their message's own body (null: its own), and the signature where it is made once.
-- Fixed when the message is accepted.
create table variant (
  message integer not null,
  n integer not null,
  body blob,
  signature text,
  primary key (message, n)
) strict;

-- Whose secret the pseudonyms of an application's endpoints are made with. The secret is sealed.
create table region (
  app integer not null,
  name text not null,
  secret text not null,
  created_at integer not null,
  primary key (app, name)
) strict, without rowid;
