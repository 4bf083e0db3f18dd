-- A worker that is stopping takes no lanes: the others share them.
alter table worker add column leaving boolean not null default false;

-- The start of the server whose session holds the lock of the worker; null: the lease alone says whether it lives.
alter table worker add column session bigint;
