-- Headers of schedules are sealed from now on. No key can have this id, so the next start finds the store not sealed, seals
-- every record under its first key, and removes the row.
insert into sealing_key (id, proof) values ('headers of schedules', '');
