-- expand
-- Filters over endpoints or dead letters that operators saved, of the whole server.
create table saved_view (
  key integer primary key,
  id text not null,
  uid text,
  name text not null,
  of text not null, -- the list that it filters
  filter text not null, -- its parts as JSON
  created_at integer not null,
  updated_at integer not null
) strict;

create unique index saved_view_uid on saved_view (uid) where uid is not null;
