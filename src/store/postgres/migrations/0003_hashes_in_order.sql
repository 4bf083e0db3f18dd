-- expand

-- Hashes are compared as bytes, and not by the rules of the database's language.
alter table idempotency alter column hash type text collate "C";
