-- How far dead-letter files are written: the last letter in a file, by region. The empty region is that of processes which
-- write the letters of all regions.
drop table unfiled;
drop table dead_file;
create table dead_file (
  region text primary key,
  began_at integer not null,
  died_at integer not null,
  endpoint integer not null,
  message integer not null,
  writer text not null default '',
  taken_until integer not null default 0
);
