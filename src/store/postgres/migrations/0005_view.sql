-- expand
-- Filters over endpoints or dead letters that operators saved, of the whole server.
create table saved_view (
  key bigint primary key,
  id text not null,
  uid text,
  name text not null,
  of text not null, -- the list that it filters
  filter json not null, -- its parts
  created_at bigint not null,
  updated_at bigint not null
);

create unique index saved_view_uid on saved_view (uid) where uid is not null;
