alter table app_token add column made_by bigint; -- the API key that it ends with; null for the key of the settings
