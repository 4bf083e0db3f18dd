-- The context of the trace that the message belongs to; null when it belongs to none.
alter table message add column trace text;
