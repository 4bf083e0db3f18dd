-- Bodies that some endpoints get instead of the message's own (null: its own), and signatures that are made once.
-- Fixed when the message is accepted.
create table variant (
  message integer not null,
  n integer not null,
  body blob,
  signature text,
  primary key (message, n)
) strict;

-- The secrets that make the pseudonyms of an application's endpoints. A secret is sealed.
create table region (
  app integer not null,
  name text not null,
  secret text not null,
  created_at integer not null,
  primary key (app, name)
) strict, without rowid;
