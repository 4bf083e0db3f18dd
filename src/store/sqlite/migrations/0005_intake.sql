alter table message add column tags text;
alter table message add column headers text; -- sent along with every attempt
alter table message add column deliver_at integer; -- null when its deliveries were due at once

-- How long the same content, or the same key sent with it, is one message; null for no time at all.
alter table application add column dedupe_s integer;

-- Actions that may happen once: a request with an Idempotency-Key, a publish within its application's dedupe window. A row
-- that has expired counts as missing. A publish leaves the message it became; any other request its answer, or neither while
-- it is under way. Rows lie by the day they expire, so that removing them rewrites whole pages and needs no second index:
-- hashes have no order, and each one written or deleted by itself costs a page of its own.
create table idempotency (
  day integer not null,
  hash text not null,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at integer not null,
  message integer,
  status integer,
  answer blob,
  primary key (day, hash)
) strict, without rowid;

-- Messages whose deliveries are not all in pending yet: those from position next of message.endpoints on are missing.
create table fan_out (
  message integer primary key,
  since integer not null, -- when its deliveries are due
  next integer not null
) strict;
