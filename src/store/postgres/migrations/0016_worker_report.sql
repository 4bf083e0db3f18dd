alter table worker add column report json; -- version, host, pid and attempts under way, as of the last renewal
