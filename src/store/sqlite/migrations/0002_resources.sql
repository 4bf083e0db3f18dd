-- Endpoints choose the method of their deliveries, and can be paused, which an operator takes back and disabling does not.
alter table endpoint add column method text not null default 'POST';
alter table endpoint add column paused integer not null default 0;

-- The application that owns the endpoints of operational webhooks. No other row can have its key and id: no caller finds it.
insert into application (key, id, uid, name, throttle_rate, metadata, created_at, updated_at)
values (0, 'management', null, 'Operational webhooks', null, '{}', 0, 0);

-- Deletions that still have rows elsewhere. A sweep removes those rows a few at a time, from due_at on: the endpoints
-- of an application behind the one reached, the waiting deliveries of an endpoint.
create table removal (
  key integer primary key,
  kind text not null,
  since integer not null,
  due_at integer not null,
  reached integer not null default 0
) strict;

create index removal_due on removal (due_at);

create table event_type (
  name text primary key,
  description text not null,
  archived integer not null,
  deprecated integer not null,
  schemas text,
  feature_flags text,
  group_name text,
  created_at integer not null,
  updated_at integer not null
) strict, without rowid;
