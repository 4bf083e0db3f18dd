-- Windows in which deliveries of one kind become one: when each ends, and the message whose delivery waits for its end. A row
-- whose instant has passed counts as missing.
create table coalescing (
  endpoint integer not null,
  key text not null, -- what deliveries of one kind have in common, hashed
  message integer not null,
  due_at integer not null,
  primary key (endpoint, key)
) strict, without rowid;

create index coalescing_due on coalescing (due_at);

-- Deliveries that ended without being sent because another took their place.
create table coalesced (
  message integer not null,
  endpoint integer not null,
  at integer not null,
  successor integer not null, -- the message that took its place
  primary key (message, endpoint)
) strict, without rowid;
