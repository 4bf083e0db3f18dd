alter table app_token add column feature_flags text; -- whose event types it sees; null for all
