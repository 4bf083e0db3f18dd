-- expand

-- Messages that other programs insert in transactions of their own. A row goes with the publish that makes it a message; a
-- row that cannot be published says why.
create table sluice_inbox (
  id bigint primary key generated always as identity,
  app text collate "C" not null, -- the id or uid of an application
  event_type text not null,
  payload text not null,
  options json, -- the other fields of a message, as the API has them
  created_at bigint not null default (extract(epoch from statement_timestamp()) * 1000)::bigint,
  refused_at bigint,
  code text, -- of the error; null while the row waits
  error text
) with (
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 1000,
  autovacuum_vacuum_cost_delay = 0
);

create index sluice_inbox_waiting on sluice_inbox (app, id) where refused_at is null;
create index sluice_inbox_refused on sluice_inbox (refused_at) where refused_at is not null;

-- Says that there are rows, once they are committed: the processes that listen on the channel know the letter
-- (store/postgres/signals.ts).
create function sluice_inbox_filled() returns trigger language plpgsql as $$
begin
  perform pg_notify('sluice', 'i');
  return null;
end $$;

create trigger sluice_inbox_filled after insert on sluice_inbox
  for each statement execute function sluice_inbox_filled();

-- What other programs call. It runs with the rights of its owner, so that they need none on the table, and nobody may call it
-- before it is granted. A role that may not create a schema goes without: an insert into the table does the same.
do $$
begin
  if to_regnamespace('sluice') is null and not has_database_privilege(current_database(), 'create') then return; end if;
  create schema if not exists sluice;
  if to_regprocedure('sluice.publish(text, text, text, json)') is not null then return; end if;
  execute format(
    'create function sluice.publish(app text, event_type text, payload text, options json default null) returns bigint '
    'language sql security definer set search_path = pg_catalog, pg_temp as '
    '''insert into %I.sluice_inbox (app, event_type, payload, options) values ($1, $2, $3, $4) returning id''',
    current_schema());
  revoke all on function sluice.publish(text, text, text, json) from public;
exception when insufficient_privilege then null;
end $$;
