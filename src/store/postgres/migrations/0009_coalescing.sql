-- Windows in which deliveries of one kind become one: when each ends, and the message whose delivery waits for its end. A row
-- whose instant has passed counts as missing.
create table coalescing (
  endpoint bigint not null,
  key text not null, -- what deliveries of one kind have in common, hashed
  message bigint not null,
  replaced bigint, -- the message whose delivery waited before, for the transaction that has just written the row
  due_at bigint not null,
  primary key (endpoint, key)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index coalescing_due on coalescing (due_at);

-- Deliveries that ended without being sent because another took their place. Lies in its message's day, so that both are
-- dropped together.
create table coalesced (
  message bigint not null,
  endpoint bigint not null,
  at bigint not null,
  successor bigint not null, -- the message that took its place
  primary key (message, endpoint)
) partition by range (message);

create table coalesced_default partition of coalesced default;
