-- How the portal of an application looks. A table of its own: the logo is large, and the application's row is often read.
create table portal_look (
  app bigint primary key,
  name text,
  logo text, -- a data URL
  color text -- #rrggbb
);
