-- Credentials toward receivers, sealed; null for none. The expiry of the client certificate is in the open, for the doctor.
alter table endpoint add column auth text;
alter table endpoint add column client_certificate text;
alter table endpoint add column certificate_expires_at integer;
create index endpoint_certificate on endpoint (certificate_expires_at) where certificate_expires_at is not null;
