alter table message add column tags json;
alter table message add column headers json; -- sent along with every attempt
alter table message add column deliver_at bigint; -- null when its deliveries were due at once

-- How long the same content, or the same key sent with it, is one message; null for no time at all.
alter table application add column dedupe_s integer;

-- Actions that may happen once: a request with an Idempotency-Key, a publish within its application's dedupe window. A row
-- that has expired counts as missing. A publish leaves the message it became; any other request its answer, or neither while
-- it is under way.
create table idempotency (
  hash text primary key,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at bigint not null,
  message bigint,
  status integer,
  answer bytea
);

create index idempotency_expires on idempotency (expires_at);

-- Messages whose deliveries are not all in pending yet: those from position next of message.endpoints on are missing.
create table fan_out (
  message bigint primary key,
  since bigint not null, -- when its deliveries are due
  next integer not null
);
