-- Sums of what happened by the minute and by the hour. Each process writes rows of its own; the leader merges them later.
create table history (
  scope integer not null, -- the key of an application or an endpoint, or -1 for the server
  span integer not null, -- how long, in milliseconds
  at integer not null, -- the start of the minute or hour
  writer text not null, -- empty for a merged row
  sums text not null,
  primary key (scope, span, at, writer)
) strict, without rowid;

create index history_at on history (span, at);
create index history_unfolded on history (at, scope) where writer <> '';
