-- How far dead-letter files are written: the last letter in a file, by region. The empty region is that of processes which
-- write the letters of all regions.
drop table unfiled;
drop table dead_file;
create table dead_file (
  region text primary key,
  began_at bigint not null,
  died_at bigint not null,
  endpoint bigint not null,
  message bigint not null,
  writer text not null default '',
  taken_until bigint not null default 0
);
