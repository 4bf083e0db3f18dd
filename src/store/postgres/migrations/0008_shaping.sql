-- Bodies that some endpoints get instead of the message's own (null: its own), and signatures that are made once.
-- Fixed when the message is accepted. Lies in its message's day, so that both are dropped together.
create table variant (
  message bigint not null,
  n smallint not null,
  body bytea,
  signature text,
  primary key (message, n)
) partition by range (message);

create table variant_default partition of variant default;

-- The secrets that make the pseudonyms of an application's endpoints. A secret is sealed. Names sort by their bytes.
create table region (
  app bigint not null,
  name text collate "C" not null,
  secret text not null,
  created_at bigint not null,
  primary key (app, name)
);
