-- expand

-- Messages that other programs insert in transactions of their own. A row goes with the publish that makes it a message; a
-- row that cannot be published says why. The default of created_at runs in the SQLite of the program that inserts, which may
-- be an old one.
create table sluice_inbox (
  id integer primary key autoincrement, -- never used twice
  app text not null, -- the id or uid of an application
  event_type text not null,
  payload any not null, -- text, or a blob
  options text, -- the other fields of a message, as the API has them, as JSON
  created_at integer not null default (cast((julianday('now') - 2440587.5) * 86400000 as integer)),
  refused_at integer,
  code text, -- of the error; null while the row waits
  error text
) strict;

create index sluice_inbox_waiting on sluice_inbox (app, id) where refused_at is null;
create index sluice_inbox_refused on sluice_inbox (refused_at) where refused_at is not null;
