-- The region whose workers may own the lane: the endpoint's, else its application's. Endpoints had a region of their own before.
alter table lane add column region text not null default 'default';
update lane set region = endpoint.flow ->> 'region'
  from endpoint where endpoint.key = lane.endpoint and endpoint.flow ->> 'region' is not null;

-- Lanes of the default region keep the index that all lanes had, so that a fleet without regions has no more to write.
drop index lane_due;
create index lane_due on lane (due_at) where owner is null and due_at is not null and region = 'default';
create index lane_due_elsewhere on lane (due_at) where owner is null and due_at is not null and region <> 'default';
create index lane_region_due on lane (region, due_at) where owner is null and due_at is not null and region <> 'default';

-- Applications whose region changed, and the last endpoint whose lane was moved.
create table region_move (
  app bigint primary key,
  reached bigint not null default 0
);

-- The regions that a worker serves; null for all.
alter table worker add column regions text[];

-- A process writes only letters of its regions to its dead-letter file.
alter table unfiled add column region text not null default 'default';
create index unfiled_region on unfiled (region, key);
