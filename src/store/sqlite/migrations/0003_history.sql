-- History: an application's messages in their order, an endpoint's dead letters in theirs.
create index message_app on message (app);
create index dead_endpoint on dead (endpoint, died_at);

-- The body of such a message is empty, and it is never sent again.
alter table message add column expunged_at integer;

-- Long work, done in steps by the worker that holds the lease. A step saves its cursor in the transaction of its work.
create table task (
  key integer primary key,
  id text not null,
  app integer,
  type text not null,
  status text not null,
  input text not null,
  cursor text,
  data text not null,
  epoch integer not null default 0, -- grows with every holder, who is thereby fenced from the next one's work
  lease_until integer not null default 0,
  created_at integer not null,
  updated_at integer not null
) strict;

create index task_running on task (lease_until) where status = 'running';
