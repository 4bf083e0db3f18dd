-- How an endpoint gets its messages, beyond its rate (see domain/flow.ts); null for the defaults.
alter table endpoint add column flow json;
-- Settings of an application for all its endpoints; null for none.
alter table application add column settings json;

-- How well the receiver does, as its last owner reported at that instant: circuit, pace, how long it has been failing.
alter table lane add column health text;
alter table lane add column health_at bigint not null default 0;
-- The owner's last snapshot.
alter table lane add column snapshot text;
alter table lane add column snapshot_at bigint not null default 0;

-- Ordered lanes: deliveries with the same number go one after the other, and a delivery that waits for its retry keeps its
-- place until then.
alter table pending add column order_key bigint;
alter table pending add column held_until bigint;
-- When it expires; null for never.
alter table pending add column expires_at bigint;
-- Which body it is sent with; null for the message's own.
alter table pending add column variant smallint;

create index pending_expires on pending (expires_at) where expires_at is not null;

alter table message add column expires_at bigint;
alter table message add column ordering_key text;
-- How its deliveries differ from plain ones; null when none does.
alter table message add column plan json;
