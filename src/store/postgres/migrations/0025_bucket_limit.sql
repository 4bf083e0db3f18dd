-- The limit that bucket_full_at was counted by, as JSON: another one may be in force when the lane is claimed. `null` in JSON
-- when there was no limit; null while no owner has stored it.
alter table lane add column bucket_limit text;
