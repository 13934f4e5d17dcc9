// The SQL of the queue of trials: its tables and every statement. The inside of trial_queue.cc. All times are the
// server's (clock_timestamp(): now() stands still within a transaction).
#pragma once
#include <string>

#include "dsl/base/arena.h"

namespace tw::queue_sql {

// Ids count up and are never used again, so that a tuner or machine that comes back is a new one. A trial is `queued`,
// `leased` or `done`; the state of a tuner's trial that is done stays until the tuner has read it.
inline constexpr const char* kTables = R"(
create schema if not exists tracewright_fleet;
create table if not exists tracewright_fleet.tuners (
  id bigint generated always as identity primary key,
  name text not null check (octet_length(name) <= 1024),
  heartbeat timestamptz not null default clock_timestamp());
create table if not exists tracewright_fleet.targets (
  tuner bigint not null references tracewright_fleet.tuners on delete cascade,
  target text not null check (octet_length(target) <= 4096),
  host text check (octet_length(host) <= 1024),
  machine text check (octet_length(machine) <= 1024),
  primary key (tuner, target));
create table if not exists tracewright_fleet.machines (
  id bigint generated always as identity primary key,
  name text not null check (octet_length(name) <= 1024),
  host text not null check (octet_length(host) <= 1024),
  version text not null check (octet_length(version) <= 1024),
  targets text not null check (octet_length(targets) <= 65536),
  memory_bytes bigint not null,
  heartbeat timestamptz not null default clock_timestamp(),
  is_gone boolean not null default false,
  good bigint not null default 0, failed bigint not null default 0, faults bigint not null default 0,
  lost bigint not null default 0, late bigint not null default 0, repeated bigint not null default 0,
  window_begin timestamptz not null default clock_timestamp(), window_trials bigint not null default 0,
  rate double precision not null default 0);
create table if not exists tracewright_fleet.trials (
  id bigint generated always as identity primary key,
  tuner bigint not null references tracewright_fleet.tuners on delete cascade,
  workload text not null check (octet_length(workload) = 32),
  target text not null check (octet_length(target) <= 4096),
  program text not null check (octet_length(program) = 32),
  trace text not null check (octet_length(trace) <= 1048576),
  task text not null check (octet_length(task) <= 1024),
  seed bigint not null, generation bigint not null, is_cold boolean not null,
  state text not null default 'queued' check (state in ('queued', 'leased', 'done')),
  machine bigint, lease bigint, leased timestamptz, deadline timestamptz,
  losses integer not null default 0, lost_by bigint, lost timestamptz,
  record bigint, fault text, message text check (octet_length(message) <= 4096),
  unique (tuner, workload, target, program, is_cold));
create index if not exists trials_of_tuner on tracewright_fleet.trials (tuner, state);
create sequence if not exists tracewright_fleet.leases;
create table if not exists tracewright_fleet.faults (
  id bigint generated always as identity primary key,
  at timestamptz not null default clock_timestamp(),
  kind text not null check (octet_length(kind) <= 64),
  machine text not null check (octet_length(machine) <= 1024),
  task text not null, program text not null,
  message text not null check (octet_length(message) <= 4096));
create table if not exists tracewright_fleet.failures (
  machine bigint not null references tracewright_fleet.machines on delete cascade,
  kind text not null check (octet_length(kind) <= 64),
  count bigint not null default 1,
  message text not null check (octet_length(message) <= 4096),
  primary key (machine, kind));

-- Trials of a target are leased by their turn: microseconds of the machines' time.
alter table tracewright_fleet.trials add column if not exists turn bigint not null default 0;
create index if not exists trials_turn on tracewright_fleet.trials (target, turn, id) where state = 'queued';
drop index if exists tracewright_fleet.trials_queued;
)";
// The third step of the schema, after that of class_sql.h. A session may plan its statements while the tables are
// empty, where all indices cost the same. So each question finds only one that fits: only what is leased has a
// deadline, and the constraint does not begin with the tuner.
inline constexpr const char* kIndices = R"(
create index trials_deadline on tracewright_fleet.trials (deadline) where deadline is not null;
create index trials_of_machine on tracewright_fleet.trials (machine) where machine is not null;
drop index if exists tracewright_fleet.trials_leased, tracewright_fleet.trials_program;
alter table tracewright_fleet.trials
  drop constraint trials_once,
  add constraint trials_distinct unique (program, workload, target, tuner, is_cold, wanted);
)";
inline constexpr const char* kHasIndices = "select to_regclass('tracewright_fleet.trials_distinct') is not null";
// The fourth step. The server reads the text of all checks of a table again in each statement that writes to it, which
// was a tenth of a trial: what roles may write is checked by the guards (guard_sql.h). Traces are not compressed: they
// leave the queue soon.
inline constexpr const char* kDropChecks = R"(
do $$
declare
  checked record;
begin
  for checked in select conrelid::regclass as name, conname from pg_constraint where contype = 'c'
      and conrelid in ('tracewright_fleet.trials'::regclass, 'tracewright_fleet.machines'::regclass) loop
    execute format('alter table %s drop constraint %I', checked.name, checked.conname);
  end loop;
end $$;
alter table tracewright_fleet.trials alter column trace set storage external;
)";
inline constexpr const char* kHasNoChecks =
    "select not exists (select from pg_constraint where contype = 'c' and "
    "conrelid in ('tracewright_fleet.trials'::regclass, 'tracewright_fleet.machines'::regclass))";
// The fifth step: what lease_gate() locks. The tables have no columns; who may use the schema may lock them.
inline constexpr const char* kGates = R"(
do $$
begin
  for gate in 0 .. 7 loop
    execute format('create table if not exists tracewright_fleet.lease_gate_%s ()', gate);
    execute format('grant update on tracewright_fleet.lease_gate_%s to public', gate);
  end loop;
end $$;
)";
inline constexpr const char* kHasGates = "select to_regclass('tracewright_fleet.lease_gate_7') is not null";
// The sixth step: parts of the queue by number of the trial, for lease_statement(). The condition is another form of
// "queued", so that trials_turn does not fit the same question.
inline constexpr const char* kParts = R"(
create index trials_part on tracewright_fleet.trials (target, (id % 8), turn, id)
  where lease is null and state <> 'done';

-- Of these trials, which the caller has locked, those whose program is not being measured for another tuner. A statement
-- that began before another machine's lease was committed does not see it; a function that is volatile does.
create or replace function tracewright_fleet.not_measured(ids bigint[]) returns bigint[] language plpgsql volatile
set search_path = pg_catalog, pg_temp as $$
begin
  return (select array_agg(t.id) from tracewright_fleet.trials t join tracewright_fleet.targets w
      on w.tuner = t.tuner and w.target = t.target and w.wanted = t.wanted
    where t.id = any(ids) and not exists (
      select from tracewright_fleet.trials l join tracewright_fleet.targets v
        on v.tuner = l.tuner and v.target = l.target and v.wanted = l.wanted
      where l.state = 'leased' and l.program = t.program and l.workload = t.workload and l.target = t.target
        and l.is_cold = t.is_cold and v.machine = w.machine offset 0));
end $$;
)";
inline constexpr int kQueueParts = 8;  // as in trials_part, and in lease_statement()
inline constexpr const char* kHasParts = "select to_regclass('tracewright_fleet.trials_part') is not null";
// The seventh step. When a table has been analyzed or vacuumed, each session plans its statements anew, which of a
// thousand sessions takes all processors for seconds. No plan of the queue depends on statistics (kSettings), and rows
// of the small tables are updated in place, where the server removes dead ones by itself.
inline constexpr const char* kVacuum = R"(
alter table tracewright_fleet.trials set (autovacuum_analyze_threshold = 2000000000);
do $$
declare
  small text;
begin
  foreach small in array array['machines', 'tuners', 'targets', 'failures'] loop
    execute format('alter table tracewright_fleet.%I set (fillfactor = 50, autovacuum_vacuum_threshold = 100000, '
      'autovacuum_analyze_threshold = 2000000000)', small);
  end loop;
end $$;
)";
inline constexpr const char* kHasVacuum =
    "select coalesce(reloptions::text, '') like '%autovacuum_analyze_threshold%' from pg_class "
    "where oid = 'tracewright_fleet.failures'::regclass";
// The eighth step: the same of records. They are only added, and found by indices,
// which a planner without statistics takes as well.
inline constexpr const char* kVacuumOfRecords = R"(
alter table tracewright.records set (autovacuum_analyze_threshold = 1000000);
do $$
begin
  -- Older servers do not vacuum tables that rows are only added to.
  if current_setting('server_version_num')::int >= 130000 then
    alter table tracewright.records set (autovacuum_vacuum_insert_threshold = 1000000);
  end if;
end $$;
)";
inline constexpr const char* kHasVacuumOfRecords =
    "select coalesce(reloptions::text, '') like '%autovacuum_analyze_threshold%' from pg_class "
    "where oid = 'tracewright.records'::regclass";
inline constexpr const char* kHasTables =
    "select to_regclass('tracewright_fleet.trials_turn') is not null and "
    "to_regclass('tracewright_fleet.failures') is not null";
// Trials pass through the indices quickly and leave dead entries there. An index scan marks those that it meets, so
// that the next one passes over them; a bitmap scan marks none, and the queue becomes slower with each trial. A plan
// that was made while the tables were empty would read all rows. Planning a lease takes as long as the lease: that is
// done once.
inline constexpr const char* kSettings =
    "SET enable_bitmapscan = off; SET enable_seqscan = off; SET plan_cache_mode = force_generic_plan";
// What wakes machines and builders.
inline constexpr const char* kTrialsChannel = "tracewright_trials";
// Two programs that make the tables wait for each other.
inline constexpr const char* kLockTables = "select pg_advisory_xact_lock(hashtext('tracewright_fleet'))";
// What roles may do; "?" stands for the role's name. A worker takes trials and ends them, it puts none in.
inline constexpr const char* kRightsOfAll =
    "GRANT USAGE ON SCHEMA tracewright_fleet TO ?; GRANT SELECT ON ALL TABLES IN SCHEMA tracewright_fleet TO ?";
inline constexpr const char* kRightsOfTuner =
    "GRANT INSERT, UPDATE, DELETE ON tracewright_fleet.tuners, tracewright_fleet.targets, tracewright_fleet.trials, "
    "tracewright_fleet.faults TO ?; GRANT UPDATE (lost) ON tracewright_fleet.machines TO ?";
inline constexpr const char* kRightsOfWorker =
    "GRANT UPDATE (host, machine) ON tracewright_fleet.targets TO ?; "
    "GRANT UPDATE (state, machine, lease, leased, deadline, losses, lost_by, lost, record, fault, message) "
    "ON tracewright_fleet.trials TO ?; "
    "GRANT DELETE ON tracewright_fleet.tuners TO ?; "
    "GRANT INSERT, UPDATE, DELETE ON tracewright_fleet.machines TO ?; "
    "GRANT INSERT ON tracewright_fleet.faults TO ?; GRANT INSERT, UPDATE ON tracewright_fleet.failures TO ?; "
    "GRANT USAGE ON SEQUENCE tracewright_fleet.leases TO ?";

// ---- tuners

inline constexpr const char* kAddTuner = "insert into tracewright_fleet.tuners (name) values ($1) returning id";
inline constexpr const char* kForgetFaults =
    "delete from tracewright_fleet.faults where at < clock_timestamp() - interval '30 days'";
inline constexpr const char* kWant = R"(
insert into tracewright_fleet.targets (tuner, target, wanted, host, machine) values ($1, $2, $3, $4, $5)
on conflict (tuner, target, wanted) do nothing)";
inline constexpr const char* kFound =
    "select host, machine from tracewright_fleet.targets where tuner = $1 and target = $2 and wanted = $3 and "
    "machine is not null";
// The turn of the tuner's last trial, but not one that has passed: what waits already and is next has it. So a tuner
// whose trials wait stands behind them, and takes its place beside the others' with each trial ("start-time fair
// queueing", Goyal, Vin and Cheng, SIGCOMM 1996).
inline constexpr const char* kLastTurn = R"(
select greatest(
  (select min(turn) from tracewright_fleet.trials where state = 'queued' and target = $2),
  (select max(turn) from tracewright_fleet.trials where state = 'queued' and target = $2 and tuner = $1), 0))";
// A batch whose acknowledgement was lost is put in once more: then these are the same trials. $2 ... $12: columns of
// the trials, which differ from each other.
inline constexpr const char* kPut = R"(
insert into tracewright_fleet.trials
  (tuner, workload, target, program, trace, task, seed, generation, is_cold, turn, wanted, incumbent)
select $1, workload, target, program, trace, task, seed, generation, is_cold, turn, wanted, nullif(incumbent, 0)
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[], $8::bigint[], $9::boolean[],
  $10::bigint[], $11::text[], $12::bigint[]) with ordinality as t
  (workload, target, program, trace, task, seed, generation, is_cold, turn, wanted, incumbent, number)
order by number
on conflict (tuner, workload, target, program, is_cold, wanted) do update set task = excluded.task
returning id)";
inline constexpr const char* kOutcomes = R"(
select t.id, t.record, t.fault, t.message, m.name from tracewright_fleet.trials t
left join tracewright_fleet.machines m on m.id = t.machine
where t.tuner = $1 and t.state = 'done' limit $2)";
inline constexpr const char* kRemoveEnded =
    "delete from tracewright_fleet.trials where tuner = $1 and id = any($2::bigint[]) and state = 'done'";
inline constexpr const char* kMachinesOfTuner =
    "select distinct machine from tracewright_fleet.targets where tuner = $1 and machine is not null";
// $1: seconds without a heartbeat.
// The class that a machine measures for, or the host of one that was not calibrated; which of them it is; how many.
inline constexpr const char* kLiveMachines = R"(
select coalesce(c.machine_class, m.host), c.machine is not null, count(*) from tracewright_fleet.machines m
left join tracewright_fleet.calibrations c on c.machine = m.id and not c.is_aside
where not m.is_gone and m.heartbeat > clock_timestamp() - make_interval(secs => $1::bigint)
  and (c.machine is not null or not exists (select from tracewright_fleet.calibrations k where k.machine = m.id))
group by 1, 2)";
// How many tuners have trials for the same machines, and how many machines have leased trials of this one.
inline constexpr const char* kShare = R"(
select
  (select count(distinct o.tuner) from tracewright_fleet.targets w
   join tracewright_fleet.targets o on o.machine = w.machine
   where w.tuner = $1 and (o.tuner = $1 or exists (
     select from tracewright_fleet.trials t where t.tuner = o.tuner and t.state in ('queued', 'leased')))),
  (select count(distinct machine) from tracewright_fleet.trials where tuner = $1 and state = 'leased'))";
inline constexpr const char* kCount =
    "select count(*) from tracewright_fleet.trials where tuner = $1 and id = any($2::bigint[])";
inline constexpr const char* kRemoveTrials =
    "delete from tracewright_fleet.trials where tuner = $1 and (state = 'queued' or $2)";
inline constexpr const char* kBeatTuner =
    "update tracewright_fleet.tuners set heartbeat = clock_timestamp() where id = $1";
inline constexpr const char* kRemoveTuner = "delete from tracewright_fleet.tuners where id = $1";

// ---- machines

inline constexpr const char* kAddMachine = R"(
insert into tracewright_fleet.machines (name, host, version, targets, memory_bytes, clock_mhz, drivers)
values ($1, $2, $3, $4, $5, $6, $7) returning id)";
inline constexpr const char* kWantedTargets =
    "select target, wanted, bool_and(machine is not null) from tracewright_fleet.targets group by target, wanted";
// $1 ... $4: targets, hosts, machines and what was wanted, one behind the other. What another machine is answering is
// left to it: a thousand would wait for each other.
inline constexpr const char* kOffer = R"(
with open as (
  select w.tuner, w.target, w.wanted, o.host, o.machine
  from unnest($1::text[], $2::text[], $3::text[], $4::text[]) as o (target, host, machine, wanted)
  join tracewright_fleet.targets w on w.target = o.target and w.wanted = o.wanted and w.machine is null
  for update of w skip locked)
update tracewright_fleet.targets t set host = o.host, machine = o.machine
from open o where t.tuner = o.tuner and t.target = o.target and t.wanted = o.wanted)";
// A program that is being measured for another tuner on a machine of the class waits for its record. A machine that
// has been calibrated gets trials for its classes only, and none while it is set aside. $1: machine, $2 and $3: targets
// and machines, $4: how many, $5: seconds of a lease, $6: seconds that a lost trial waits for another machine than the
// one that lost it, $7: the kinds of built code that the machine runs; null = it compiles itself. The index is walked
// until there are enough; `offset 0` keeps the server from joining and sorting all instead.
//
// Whoever walks the whole queue in order meets what all others are leasing, and what has been leased since the oldest
// statement that still runs began. So where many lease, each one begins with another part of the queue ($8) and goes on
// to the next only if that has too few; in a part trials are in order.
//
// The questions before a trial is locked are those that cost little. A program is locked until its lease is committed,
// because another machine that leases it for another tuner does not see the lease before.
inline std::string lease_statement(bool in_parts) {
  const std::string from = in_parts ? R"(generate_series(0, 7) as p (n) cross join lateral (
      select * from tracewright_fleet.trials t where t.id % 8 = ($8::bigint + p.n) % 8
        and t.lease is null and t.state <> 'done')"
                                    : R"((
      select * from tracewright_fleet.trials t where t.state = 'queued')";
  return R"(
with free as (
  select f.id from (
    select u.target, u.machine, array(
      select w.tuner || ' ' || w.wanted from tracewright_fleet.targets w
      where w.target = u.target and w.machine = u.machine) as wanting
    from unnest($2::text[], $3::text[]) as u (target, machine)
    where (not exists (select from tracewright_fleet.calibrations c where c.machine = $1)
      or exists (select from tracewright_fleet.calibrations c
        where c.machine = $1 and c.machine_class = u.machine and not c.is_aside)) offset 0) as o cross join lateral (
    select q.id, q.turn, q.program from )" +
         from + R"( and t.target = o.target
        and t.tuner || ' ' || t.wanted = any(o.wanting)
        and (t.lost_by is null or t.lost_by <> $1 or t.lost < clock_timestamp() - make_interval(secs => $6::bigint))
        and ($7::text[] is null or exists (select from tracewright_fleet.builds b
          where b.trial = t.id and b.kind = any($7::text[]) and b.content is not null offset 0))
      order by t.turn, t.id for update of t skip locked) q
    where not exists (select from tracewright_fleet.trials l join tracewright_fleet.targets v
        on v.tuner = l.tuner and v.target = l.target and v.wanted = l.wanted
      where l.state = 'leased' and l.program = q.program and l.workload = q.workload and l.target = q.target
        and l.is_cold = q.is_cold and v.machine = o.machine offset 0)
    limit $4) f
  where pg_try_advisory_xact_lock(839089418, hashtext(f.program))
  order by f.turn, f.id limit $4),
taken as (
  update tracewright_fleet.trials t
  set state = 'leased', machine = $1, lease = nextval('tracewright_fleet.leases'), leased = clock_timestamp(),
      deadline = clock_timestamp() + make_interval(secs => $5::bigint)
  where t.id = any(array(select unnest(tracewright_fleet.not_measured(array(select id from free)))))
  returning t.id, t.lease, t.workload, t.target, t.program, t.trace, t.task, t.seed, t.generation, t.is_cold,
    t.wanted, t.incumbent)
select * from taken)";
}
// A few machines lease or write results at a time, the others wait here: many that lease would all look at the same
// trials, each of them at all that the others have taken, and tuners would have one of many hundred shares of the
// server's processors, while the queue becomes empty. Who waits for a table's lock has no
// snapshot, which would keep the server from removing what has left the queue.
inline std::string lease_gate(i64 machine) {
  return "lock table tracewright_fleet.lease_gate_" + std::to_string(machine % 8) + " in exclusive mode";
}
// What a trial is whose lease is not valid any more.
inline constexpr const char* kTrialState = "select state, lease, record from tracewright_fleet.trials where id = $1";
// What ends a lease is a sign of life of the machine, as a heartbeat is (life_signs.h): it writes the row anyway.
inline constexpr const char* kAliveToo = ", heartbeat = clock_timestamp(), is_gone = false ";
// The end of a lease that is valid, with the record. $1: trial, $2: lease, $3: fault, $4: message, $5: machine, $6 ...
// $8: what is added to its counts. Texts of the caller: what is locked before a new record gets its number, the common
// table expression that inserts it, and the number of the record.
inline std::string finish_statement(const std::string& lock, const std::string& insert, const std::string& record) {
  return "with gate as materialized (select id" + lock + R"( from tracewright_fleet.trials
  where id = $1 and lease = $2 and state = 'leased' and deadline >= clock_timestamp() for update),)" +
         insert + R"(
ended as (
  update tracewright_fleet.trials t
  set state = 'done', fault = $3, message = $4, deadline = null, record = )" +
         record + R"( from gate where t.id = gate.id returning t.record),
counted as (
  update tracewright_fleet.machines set good = good + $6, failed = failed + $7, faults = faults + $8)" +
         kAliveToo + R"(where id = $5 and exists (select from gate))
select record from ended)";
}
// The same for several leases with good records, each of them by itself: what is not valid any more is left out. The
// answer: trials and their records. $1: machine, $2 and $3: trials and leases. Texts of the caller: what is locked, the
// columns of records, and arrays of them as unnest() takes them. All trials are locked before that; records get their
// numbers in the order in which they are given.
inline std::string finish_together_statement(const std::string& lock, const std::string& columns,
                                             const std::string& arrays) {
  return "with given as materialized (select * from unnest($2::bigint[], $3::bigint[], " + arrays +
         ") with ordinality as g (trial, lease, " + columns + R"(, place)),
valid as materialized (
  select g.place, f.id from given g cross join lateral (
    select t.id from tracewright_fleet.trials t
    where t.id = g.trial and t.lease = g.lease and t.state = 'leased' and t.deadline >= clock_timestamp()
    for update) f),
gate as materialized (select v.place, v.id, ()" +
         lock + R"() from (select place, id from valid order by place offset 0) v),
stored as (
  INSERT INTO tracewright.records ()" +
         columns + ") SELECT " + columns + R"( FROM given JOIN gate USING (place) ORDER BY place RETURNING id),
numbered as (select id as record, row_number() over (order by id) as number from stored),
named as materialized (
  select id, record from (select id, row_number() over (order by place) as number from gate) g
  join numbered using (number)),
ended as (
  update tracewright_fleet.trials t
  set state = 'done', fault = null, message = null, deadline = null,
    record = (select n.record from named n where n.id = t.id)
  where t.id = any(array(select id from gate)) returning t.id, t.record),
counted as (
  update tracewright_fleet.machines set good = good + (select count(*) from gate))" +
         kAliveToo + R"(where id = $1 and exists (select from gate))
select id, record from ended)";
}
inline constexpr const char* kNoteFault = R"(
insert into tracewright_fleet.faults (kind, machine, task, program, message)
select $2, m.name, $3, $4, $5 from tracewright_fleet.machines m where m.id = $1)";
// A result that was ignored: $2 and $3 are added to the counts.
inline constexpr const char* kCountIgnored =
    "update tracewright_fleet.machines set late = late + $2, repeated = repeated + $3 where id = $1";
// $2: status of the record, $3: its message.
inline constexpr const char* kNoteFailure = R"(
insert into tracewright_fleet.failures as f (machine, kind, message) values ($1, $2, $3)
on conflict (machine, kind) do update set count = f.count + 1, message = excluded.message)";
inline constexpr const char* kGiveBack = R"(
with back as (
  update tracewright_fleet.trials set state = 'queued', machine = null, lease = null, deadline = null
  where machine = $1 and state = 'leased' returning id),
told as (select pg_notify('tracewright_trials', '') from back limit 1)
select (select count(*) from back), (select count(*) from told))";
// Prolongs leases of which less than $4 seconds are left: most trials end before. $2: seconds of a lease, $3: seconds
// of the longest one. The rate is that of windows of ten seconds and more. None of this waits for the disk.
inline constexpr const char* kBeatMachine = R"(
with prolonged as (
  update tracewright_fleet.trials
  set deadline =
    least(clock_timestamp() + make_interval(secs => $2::bigint), leased + make_interval(secs => $3::bigint))
  where machine = $1 and state = 'leased' and deadline >= clock_timestamp()
    and deadline < clock_timestamp() + make_interval(secs => $4::bigint))
update tracewright_fleet.machines set heartbeat = clock_timestamp(), is_gone = false,
  rate = case when window_begin < clock_timestamp() - interval '10 seconds'
    then (good + failed - window_trials) / extract(epoch from clock_timestamp() - window_begin) else rate end,
  window_trials = case when window_begin < clock_timestamp() - interval '10 seconds'
    then good + failed else window_trials end,
  window_begin = case when window_begin < clock_timestamp() - interval '10 seconds'
    then clock_timestamp() else window_begin end
where id = $1 returning lost, set_config('synchronous_commit', 'off', true))";
inline constexpr const char* kLeave = "update tracewright_fleet.machines set is_gone = true, rate = 0 where id = $1";

// ---- both

// A lease that ran out: back into the queue, and the second time the end of the trial. $1: the fault's name. (Of
// clock_timestamp(), which may change while a statement runs, the index of deadlines would be of no use.)
inline constexpr const char* kEndLeases = R"(
with late as (
  select id from tracewright_fleet.trials where deadline < statement_timestamp() for update skip locked),
ended as (
  update tracewright_fleet.trials t set
    state = case when t.losses = 0 then 'queued' else 'done' end, losses = t.losses + 1,
    lost_by = t.machine, lost = clock_timestamp(), lease = null, deadline = null,
    fault = case when t.losses = 0 then null else $1 end,
    message = case when t.losses = 0 then null else 'the leases of two machines ran out' end
  where t.id = any(array(select id from late)) returning t.id, t.tuner, t.lost_by, t.state, t.task, t.program),
counted as (
  update tracewright_fleet.machines m set lost = m.lost + e.count
  from (select lost_by, count(*) as count from ended group by lost_by) e where m.id = e.lost_by returning m.id),
noted as (
  insert into tracewright_fleet.faults (kind, machine, task, program, message)
  select $1, coalesce(m.name, ''), e.task, e.program,
    case when e.state = 'queued' then 'its lease ran out, the trial goes to another machine'
         else 'its lease ran out, the second one of the trial' end
  from ended e left join tracewright_fleet.machines m on m.id = e.lost_by returning id)
select e.id, case when e.state = 'queued' then pg_notify('tracewright_trials', '') end from ended e)";
inline constexpr const char* kRemoveGoneTuners =
    "delete from tracewright_fleet.tuners where heartbeat < clock_timestamp() - make_interval(secs => $1::bigint)";
inline constexpr const char* kRemoveGoneMachines =
    "delete from tracewright_fleet.machines where heartbeat < clock_timestamp() - interval '7 days'";
inline constexpr const char* kNotifyMachines = "select pg_notify('tracewright_trials', '')";

// ---- what `fleet` shows

// $1: seconds after which a machine is gone.
// Machines that have been gone for a day are left out.
inline constexpr const char* kMachines = R"(
with at_hand as (
  select machine, count(*) as count, string_agg(distinct task, E'\n') as tasks from tracewright_fleet.trials
  where state = 'leased' group by machine)
select m.id, m.name, m.host, m.version, m.targets, m.memory_bytes, m.good, m.failed, m.faults, m.lost, m.late,
  m.repeated, coalesce(h.count, 0), round(m.rate * 1000)::bigint,
  round(extract(epoch from clock_timestamp() - m.heartbeat) * 1000)::bigint,
  m.is_gone or m.heartbeat < clock_timestamp() - make_interval(secs => $1::bigint), coalesce(h.tasks, ''),
  m.clock_mhz, m.drivers
from tracewright_fleet.machines m left join at_hand h on h.machine = m.id
where m.heartbeat > clock_timestamp() - interval '1 day' order by m.id)";
inline constexpr const char* kMeasured =
    "select coalesce(sum(good + failed), 0)::bigint from tracewright_fleet.machines";
inline constexpr const char* kTuners = R"(
select u.id, u.name,
  (select count(*) from tracewright_fleet.trials t where t.tuner = u.id and t.state = 'queued'),
  (select count(*) from tracewright_fleet.trials t where t.tuner = u.id and t.state = 'leased'),
  (select count(*) from tracewright_fleet.trials t where t.tuner = u.id and t.state = 'done'),
  round(extract(epoch from clock_timestamp() - u.heartbeat) * 1000)::bigint
from tracewright_fleet.tuners u order by u.id)";
inline constexpr const char* kWaiting =
    "select target || case wanted when '' then '' else ' on ' || wanted end from tracewright_fleet.targets "
    "where tuner = $1 and machine is null order by 1";
inline constexpr const char* kFaults = R"(
select kind, machine, count(*), (array_agg(message order by id desc))[1] from tracewright_fleet.faults
group by kind, machine order by kind, machine)";
inline constexpr const char* kFailures = R"(
select f.kind, m.name, sum(f.count)::bigint, (array_agg(f.message order by m.id desc))[1]
from tracewright_fleet.failures f join tracewright_fleet.machines m on m.id = f.machine
where m.heartbeat > clock_timestamp() - interval '1 day' group by f.kind, m.name order by f.kind, m.name)";
inline constexpr const char* kQueue = R"(
select tuner, task, target, count(*) filter (where state = 'queued'), count(*) filter (where state = 'leased')
from tracewright_fleet.trials where state <> 'done' group by tuner, task, target order by tuner, task, target)";

}  // namespace tw::queue_sql
