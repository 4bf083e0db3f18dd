-- expand
-- Finds the next application that has unowned lanes with an instant, and its lanes in the order of that instant, at one seek
-- each: while more lanes are due than a worker takes at once, applications take turns.
create index lane_app_due on lane (app, region, due_at) where owner is null and due_at is not null;
