alter table api_key add column app integer; -- the one application it is for; null for all
alter table api_key add column expires_at integer;
alter table api_key add column last_used_at integer; -- within a minute

-- Tokens for the portal of one application. A row goes when the token ends.
create table app_token (
  key integer primary key,
  id text not null,
  app integer not null,
  hash blob not null unique,
  capabilities text not null,
  session_id text,
  created_at integer not null,
  expires_at integer not null
) strict;

create index app_token_app on app_token (app);
create index app_token_expires on app_token (expires_at);

-- Encryption keys that may have sealed a record here, each with a text that it sealed: a wrong key is found at the start.
create table sealing_key (
  id text primary key,
  proof text not null
) strict, without rowid;

-- The log of changes and their actors. Rows are only appended; each row's hash covers the one before it.
create table audit (
  n integer primary key,
  id text not null,
  at integer not null,
  actor text not null,
  ip text not null,
  action text not null,
  app text,
  target text not null,
  before text,
  after text,
  hash text not null
) strict;
