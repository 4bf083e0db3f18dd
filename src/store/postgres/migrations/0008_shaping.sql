-- What some endpoints get instead of their message's own body (null: its own), and the signature where it is made once.
-- Fixed when the message is accepted. Lies in its message's day, so that both are dropped together.
create table variant (
  message bigint not null,
  n smallint not null,
  body bytea,
  signature text,
  primary key (message, n)
) partition by range (message);

create table variant_default partition of variant default;

-- Whose secret the pseudonyms of an application's endpoints are made with. The secret is sealed. Names sort by their bytes.
create table region (
  app bigint not null,
  name text collate "C" not null,
  secret text not null,
  created_at bigint not null,
  primary key (app, name)
);
