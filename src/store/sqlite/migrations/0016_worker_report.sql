alter table worker add column report text; -- version, host, pid and attempts under way, as of the last renewal
