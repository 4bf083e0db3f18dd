-- Endpoints that the message was replayed to although it was not accepted for them: their deliveries need the body, too.
alter table payload_end add column added_endpoints text not null default '[]';
