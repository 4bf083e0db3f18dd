-- Alerts. The leader steps their states; a version that grows keeps a second leader from doing the same.
create table alert (
  rule text not null,
  subject text not null, -- empty for the server, else the id of an endpoint, or a worker
  version integer not null,
  state text not null,
  primary key (rule, subject)
) strict;

-- Times in which alerts are not announced. A row goes when its time is over, with the next one that is made.
create table alert_silence (
  key integer primary key,
  id text not null,
  rule text, -- null for all rules
  subject text, -- null for all subjects
  from_at integer not null,
  until_at integer not null,
  reason text not null,
  created_by text not null,
  created_at integer not null
) strict;
