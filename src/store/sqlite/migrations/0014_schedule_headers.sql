-- Headers of the messages that the schedule publishes; null for none.
alter table schedule add column headers text;
