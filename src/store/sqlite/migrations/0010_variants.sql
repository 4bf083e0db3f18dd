-- What some endpoints get instead of their message's own body (null: its own), and the signature where it is made once.
-- Fixed when the message is accepted.
create table variant (
  message integer not null,
  n integer not null,
  body blob,
  signature text,
  primary key (message, n)
) strict;
