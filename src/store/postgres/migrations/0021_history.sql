-- Sums of what happened by the minute and by the hour. Each process writes rows of its own; the leader merges them later.
create table history (
  scope bigint not null, -- the key of an application or an endpoint, or -1 for the server
  span integer not null, -- how long, in milliseconds
  at bigint not null, -- the start of the minute or hour
  writer text not null, -- empty for a merged row
  sums json not null,
  primary key (scope, span, at, writer)
) with (fillfactor = 70);

-- On expressions, so that no other statement uses it: it has the rows of all scopes.
create index history_at on history ((span + 0), (at + 0));
create index history_unfolded on history (at, scope) where writer <> '';
