-- contract since 3: no program since then looks into the table.

insert into taken_hash (day, seq, mark, hash, fingerprint, expires_at, message, status, answer)
select day, (select coalesce(max(seq), 0) from taken_hash t where t.day = i.day) + row_number() over (partition by day order by expires_at),
       abs(random() % 9007199254740992), hash, fingerprint, expires_at, message, status, answer
  from idempotency i;

drop table idempotency;
