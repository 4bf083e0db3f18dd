alter table api_key
  add column app bigint, -- the one application it is for; null for all
  add column expires_at bigint,
  add column last_used_at bigint; -- within a minute

-- Tokens for the portal of one application. A row goes when the token ends.
create table app_token (
  key bigint primary key,
  id text not null,
  app bigint not null,
  hash bytea not null unique,
  capabilities json not null,
  session_id text,
  created_at bigint not null,
  expires_at bigint not null
);

create index app_token_app on app_token (app);
create index app_token_expires on app_token (expires_at);

-- Encryption keys that may have sealed a record here, each with a text that it sealed: a wrong key is found at the start.
create table sealing_key (
  id text primary key,
  proof text not null
);

-- The log of changes and their actors. Rows are only appended; each row's hash covers the one before it. The states
-- before and after are text, not json: the hash is over their characters.
create table audit (
  n bigint primary key,
  id text not null,
  at bigint not null,
  actor text not null,
  ip text not null,
  action text not null,
  app text,
  target text not null,
  before text,
  after text,
  hash text not null
);
