-- Endpoints and schedules whose uid is `.` or `..`, which no client can name in a URL. The doctor reads them.
create index endpoint_folded on endpoint (uid) where uid in ('.', '..');
create index schedule_folded on schedule (uid) where uid in ('.', '..');
