// The SQL of classes of machines: their tables, and what they add to those of the queue (queue_sql.h). The inside of
// machine_classes.cc.
#pragma once

namespace tw::class_sql {

inline constexpr const char* kHasTables = "select to_regclass('tracewright_fleet.incumbents') is not null";

// The second step of the queue's schema. `classes` is never emptied: records name its numbers. A trial goes to the
// machines of its tuner's target that was asked for in the same words (`wanted`).
inline constexpr const char* kTables = R"(
create table tracewright_fleet.classes (
  id bigint generated always as identity primary key,
  fingerprint text not null check (octet_length(fingerprint) <= 1024),
  number bigint not null,
  times text not null check (octet_length(times) <= 4096),
  founded timestamptz not null default clock_timestamp(),
  unique (fingerprint, number));
create table tracewright_fleet.calibrations (
  machine bigint not null references tracewright_fleet.machines on delete cascade,
  fingerprint text not null check (octet_length(fingerprint) <= 1024),
  class bigint not null references tracewright_fleet.classes,
  machine_class text not null check (octet_length(machine_class) <= 1024),
  times text not null check (octet_length(times) <= 4096),
  at timestamptz not null default clock_timestamp(),
  is_aside boolean not null, aside timestamptz,
  primary key (machine, fingerprint));
alter table tracewright_fleet.machines
  add column clock_mhz bigint not null default 0,
  add column drivers text not null default '' check (octet_length(drivers) <= 4096);
alter table tracewright_fleet.targets
  add column wanted text not null default '' check (octet_length(wanted) <= 256),
  drop constraint targets_pkey,
  add constraint targets_pkey primary key (tuner, target, wanted);
alter table tracewright_fleet.trials
  add column wanted text not null default '' check (octet_length(wanted) <= 256),
  add column incumbent bigint,
  drop constraint trials_tuner_workload_target_program_is_cold_key,
  add constraint trials_once unique (tuner, workload, target, program, is_cold, wanted);
create view tracewright_fleet.incumbents as
  select t.id as trial, r.id as record, r.host, r.program, r.trace, r.seconds_ps
  from tracewright_fleet.trials t join tracewright.records r on r.id = t.incumbent
  where t.state = 'leased' and r.workload = t.workload and r.target = t.target and r.status in ('ok', 'noisy');
)";
inline constexpr const char* kRightsOfWorker =
    "GRANT INSERT ON tracewright_fleet.classes TO ?; "
    "GRANT INSERT, UPDATE ON tracewright_fleet.calibrations TO ?";

// Two machines that found a class wait for each other.
inline constexpr const char* kLockClasses = "select pg_advisory_xact_lock(hashtext('tracewright_fleet.classes'))";
inline constexpr const char* kClasses =
    "select id, number, times from tracewright_fleet.classes where fingerprint = $1 order by number";
inline constexpr const char* kFound = R"(
insert into tracewright_fleet.classes (fingerprint, number, times)
select $1, coalesce(max(number), 0) + 1, $2 from tracewright_fleet.classes where fingerprint = $1
returning id, number)";
inline constexpr const char* kOwnClass =
    "select class from tracewright_fleet.calibrations where machine = $1 and fingerprint = $2";
// $6: is it set aside?
inline constexpr const char* kStore = R"(
insert into tracewright_fleet.calibrations as c (machine, fingerprint, class, machine_class, times, is_aside, aside)
select m.id, $2, $3::bigint, $4, $5, $6::boolean, case when $6::boolean then clock_timestamp() end
from tracewright_fleet.machines m where m.id = $1
on conflict (machine, fingerprint) do update set class = excluded.class, machine_class = excluded.machine_class,
  times = excluded.times, at = clock_timestamp(), is_aside = excluded.is_aside,
  aside = case when excluded.is_aside then coalesce(c.aside, excluded.aside) end)";
inline constexpr const char* kCalibrations = R"(
select c.machine, c.fingerprint, k.number, c.times, k.times, c.is_aside,
  round(extract(epoch from clock_timestamp() - c.at) * 1000)::bigint,
  coalesce(round(extract(epoch from clock_timestamp() - c.aside) * 1000)::bigint, 0)
from tracewright_fleet.calibrations c join tracewright_fleet.classes k on k.id = c.class
order by c.machine, c.fingerprint)";

// Of a trial that is leased: the record of the best kernel that its tuner knew.
inline constexpr const char* kIncumbent =
    "select record, host, program, trace, seconds_ps from tracewright_fleet.incumbents where trial = $1";

}  // namespace tw::class_sql
