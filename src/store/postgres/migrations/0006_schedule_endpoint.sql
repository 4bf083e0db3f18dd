-- expand
-- The one endpoint that gets the messages of a schedule, by id or uid; null for every endpoint that matches.
alter table schedule add column endpoint text;
