-- The split of an attempt's time, as `writeTimings` writes it; null when it is unknown.
alter table attempt add column timings text;
