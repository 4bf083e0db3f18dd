-- Sessions of browsers, and links that sign in once. Each belongs to an API key, to an application token, or to the admin
-- key of the settings, whose hash it keeps. A row goes when the session ends or the link is used.
create table web_session (
  key bigint primary key,
  id text not null,
  kind text not null, -- session, link
  hash bytea not null unique,
  owner_kind text not null, -- api_key, app_token, admin
  owner bigint not null, -- the key of the row; 0 for the admin key of the settings
  admin_hash bytea,
  user_agent text,
  address text,
  created_at bigint not null,
  expires_at bigint not null,
  last_used_at bigint -- within a minute
);

create index web_session_owner on web_session (owner_kind, owner, key);
create index web_session_expires on web_session (expires_at);
