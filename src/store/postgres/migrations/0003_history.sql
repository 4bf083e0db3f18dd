-- History: an application's messages in their order, an endpoint's dead letters in theirs.
create index message_app on message (app, key);
-- On an expression, so that only a list can use it: while the table is small, a dead letter looked up by its whole key would
-- as well be sought here, among all of its endpoint's.
create index dead_endpoint on dead ((endpoint + 0), died_at);

-- The body of such a message is empty, and it is never sent again.
alter table message add column expunged_at bigint;

-- Long work, done in steps by the worker that holds the lease. A step saves its cursor in the transaction of its work.
create table task (
  key bigint primary key,
  id text not null,
  app bigint,
  type text not null,
  status text not null,
  input json not null,
  cursor json,
  data json not null,
  epoch bigint not null default 0, -- grows with every holder, who is thereby fenced from the next one's work
  lease_until bigint not null default 0,
  created_at bigint not null,
  updated_at bigint not null
);

create index task_running on task (lease_until) where status = 'running';
