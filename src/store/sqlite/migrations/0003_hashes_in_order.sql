-- expand

-- Hashes that are taken, in the order in which they were taken, by the day on which they expire.
create table taken_hash (
  day integer not null,
  seq integer not null,
  mark integer not null, -- random: tells this row from one that got its number after it was undone
  hash text not null,
  fingerprint text not null, -- of the request; another one under the same hash is refused
  expires_at integer not null, -- 0: the hash was freed
  message integer,
  status integer,
  answer blob,
  primary key (day, seq)
) strict, without rowid;

-- Sorted indexes over the rows of taken_hash, cut into slices by hash.
create table taken_run (
  day integer not null,
  level integer not null,
  run integer not null,
  slice integer not null,
  filter blob not null,
  entries blob not null, -- 32 bits of a hash, and a seq, for each row
  primary key (day, level, run, slice)
) strict;
