-- Endpoints choose the method of their deliveries, and can be paused, which an operator takes back and disabling does not.
alter table endpoint add column method text not null default 'POST';
alter table endpoint add column paused boolean not null default false;

-- The application that owns the endpoints of operational webhooks. No other row can have its key and id: no caller finds it.
insert into application (key, id, uid, name, throttle_rate, metadata, created_at, updated_at)
values (0, 'management', null, 'Operational webhooks', null, '{}', 0, 0);

-- Deletions that still have rows elsewhere. A sweep removes those rows a few at a time, from due_at on: the endpoints
-- of an application behind the one reached, the waiting deliveries of an endpoint.
create table removal (
  key bigint primary key,
  kind text not null,
  since bigint not null,
  due_at bigint not null,
  reached bigint not null default 0
);

create index removal_due on removal (due_at);

-- Names are ordered by their bytes, whatever the database's locale, so that both stores list them alike.
create table event_type (
  name text collate "C" primary key,
  description text not null,
  archived boolean not null,
  deprecated boolean not null,
  schemas json,
  feature_flags json,
  group_name text,
  created_at bigint not null,
  updated_at bigint not null
);
