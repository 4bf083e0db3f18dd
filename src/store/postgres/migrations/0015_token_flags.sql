alter table app_token add column feature_flags json; -- whose event types it sees; null for all
