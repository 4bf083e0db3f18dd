-- A worker that is stopping takes no lanes: the others share them.
alter table worker add column leaving integer not null default 0;
