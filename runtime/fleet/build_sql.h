// The SQL of builds: machine code that builders make for machines without a compiler. Its tables and every statement;
// the inside of build_queue.cc. All times are the server's. Keys are never here.
#pragma once

namespace tw::build_sql {

inline constexpr const char* kHasTables = "select to_regclass('tracewright_fleet.built_tasks') is not null";

// What a build has to fit is its `kind`, a text (see BuildKind). A build without content has been taken by a builder,
// until its deadline.
inline constexpr const char* kTables = R"(
create table if not exists tracewright_fleet.builders (
  id bigint generated always as identity primary key,
  name text not null check (octet_length(name) <= 1024),
  version text not null check (octet_length(version) <= 1024),
  targets text not null check (octet_length(targets) <= 65536),
  key text not null check (octet_length(key) <= 64),
  heartbeat timestamptz not null default clock_timestamp(),
  is_gone boolean not null default false,
  built bigint not null default 0, failed bigint not null default 0, faults bigint not null default 0);
create table if not exists tracewright_fleet.builds_wanted (
  machine bigint not null references tracewright_fleet.machines on delete cascade,
  target text not null check (octet_length(target) <= 4096),
  kind text not null check (octet_length(kind) <= 8192),
  processor text not null check (octet_length(processor) <= 4096),
  primary key (machine, target));
create table if not exists tracewright_fleet.builds_offered (
  builder bigint not null references tracewright_fleet.builders on delete cascade,
  target text not null check (octet_length(target) <= 4096),
  kind text not null check (octet_length(kind) <= 8192),
  primary key (builder, target, kind));
create table if not exists tracewright_fleet.builds (
  trial bigint not null references tracewright_fleet.trials on delete cascade,
  kind text not null check (octet_length(kind) <= 8192),
  builder bigint not null, attempts integer not null default 1,
  taken timestamptz not null default clock_timestamp(), deadline timestamptz,
  content bytea check (octet_length(content) <= 33554432),
  signature bytea check (octet_length(signature) <= 1024),
  primary key (trial, kind));
create table if not exists tracewright_fleet.built_tasks (
  workload text not null check (octet_length(workload) = 32),
  target text not null check (octet_length(target) <= 4096),
  seed bigint not null,
  kind text not null check (octet_length(kind) <= 8192),
  used timestamptz not null default clock_timestamp(),
  content bytea not null check (octet_length(content) <= 268435456),
  signature bytea not null check (octet_length(signature) <= 1024),
  primary key (workload, target, seed, kind));
)";
// What a worker may do; "?" stands for the role's name. Others read.
inline constexpr const char* kRightsOfWorker =
    "GRANT INSERT, UPDATE, DELETE ON tracewright_fleet.builders, tracewright_fleet.builds_wanted, "
    "tracewright_fleet.builds_offered TO ?; GRANT INSERT, UPDATE ON tracewright_fleet.builds TO ?; "
    "GRANT INSERT, UPDATE, DELETE ON tracewright_fleet.built_tasks TO ?";

// ---- machines

inline constexpr const char* kForgetWanted = "delete from tracewright_fleet.builds_wanted where machine = $1";
inline constexpr const char* kWant = R"(
insert into tracewright_fleet.builds_wanted (machine, target, kind, processor) values ($1, $2, $3, $4)
on conflict do nothing)";
// Of the targets in $1 with the kinds in $2 those that a builder builds for. $3: seconds after which one is gone.
inline constexpr const char* kWithBuilder = R"(
select distinct o.target from tracewright_fleet.builds_offered o
join tracewright_fleet.builders b on b.id = o.builder
where (o.target, o.kind) in (select * from unnest($1::text[], $2::text[]))
  and not b.is_gone and b.heartbeat >= clock_timestamp() - make_interval(secs => $3::bigint))";
inline constexpr const char* kBuildOf = R"(
select content, signature from tracewright_fleet.builds where trial = $1 and kind = $2 and content is not null)";
inline constexpr const char* kTaskOf = R"(
select content, signature from tracewright_fleet.built_tasks
where workload = $1 and target = $2 and seed = $3 and kind = $4)";

// ---- builders

inline constexpr const char* kAddBuilder = R"(
insert into tracewright_fleet.builders (name, version, targets, key) values ($1, $2, $3, $4) returning id)";
inline constexpr const char* kRemoveGoneBuilders =
    "delete from tracewright_fleet.builders where heartbeat < clock_timestamp() - interval '7 days'";
inline constexpr const char* kForgetTasks =
    "delete from tracewright_fleet.built_tasks where used < clock_timestamp() - interval '7 days'";
// What machines want that are there. $1: seconds after which one is gone.
inline constexpr const char* kWanted = R"(
select distinct w.target, w.kind, w.processor from tracewright_fleet.builds_wanted w
join tracewright_fleet.machines m on m.id = w.machine
where not m.is_gone and m.heartbeat >= clock_timestamp() - make_interval(secs => $1::bigint)
order by w.target, w.kind)";
// $1: a record that is the incumbent of a leased trial, $2: target.
inline constexpr const char* kTrialOfRecord = R"(
select t.workload, i.program, i.trace from tracewright_fleet.incumbents i
join tracewright_fleet.trials t on t.id = i.trial where i.record = $1 and t.target = $2 limit 1)";
// $2, $3: targets and kinds, one behind the other.
inline constexpr const char* kOffer = R"(
with offered as (
  insert into tracewright_fleet.builds_offered (builder, target, kind)
  select $1, * from unnest($2::text[], $3::text[]) on conflict do nothing returning builder)
select pg_notify('tracewright_trials', '') from offered limit 1)";
// Takes trials that nobody has built or is building. $1: builder, $2, $3: targets and kinds, $4: how many, $5: seconds
// until another one may take them.
inline constexpr const char* kTake = R"(
with free as (
  select t.id, a.kind from tracewright_fleet.trials t
  join unnest($2::text[], $3::text[]) as a (target, kind) on a.target = t.target
  left join tracewright_fleet.builds b on b.trial = t.id and b.kind = a.kind
  where t.state = 'queued' and (b.trial is null or (b.content is null and b.deadline < clock_timestamp()))
  order by t.id limit $4 for no key update of t skip locked),
taken as (
  insert into tracewright_fleet.builds as b (trial, kind, builder, deadline)
  select id, kind, $1, clock_timestamp() + make_interval(secs => $5::bigint) from free
  on conflict (trial, kind) do update set builder = excluded.builder, attempts = b.attempts + 1,
    taken = clock_timestamp(), deadline = excluded.deadline
    where b.content is null and b.deadline < clock_timestamp()
  returning b.trial, b.kind, b.attempts)
select t.id, t.workload, t.target, t.program, t.trace, t.task, t.seed, a.kind, a.attempts
from taken a join tracewright_fleet.trials t on t.id = a.trial order by t.id)";
// $4: content, $5: signature.
inline constexpr const char* kStore = R"(
update tracewright_fleet.builds set content = $4, signature = $5, deadline = null
where trial = $1 and kind = $2 and builder = $3 and content is null)";
// $2 ... $4: what is added to the counts.
inline constexpr const char* kCount = R"(
update tracewright_fleet.builders set built = built + $2, failed = failed + $3, faults = faults + $4 where id = $1)";
inline constexpr const char* kStoreTask = R"(
insert into tracewright_fleet.built_tasks (workload, target, seed, kind, content, signature)
values ($1, $2, $3, $4, $5, $6)
on conflict (workload, target, seed, kind) do update set content = excluded.content, signature = excluded.signature,
  used = clock_timestamp())";
// $2: seconds of a deadline, $3: of the longest one.
inline constexpr const char* kProlong = R"(
update tracewright_fleet.builds
set deadline = least(clock_timestamp() + make_interval(secs => $2::bigint), taken + make_interval(secs => $3::bigint))
where builder = $1 and content is null and deadline >= clock_timestamp())";
inline constexpr const char* kBeat =
    "update tracewright_fleet.builders set heartbeat = clock_timestamp(), is_gone = false where id = $1";
// What the builder has taken goes to others at once.
inline constexpr const char* kGiveBack = R"(
update tracewright_fleet.builds set deadline = clock_timestamp() - interval '1 second', attempts = attempts - 1
where builder = $1 and content is null and deadline >= clock_timestamp())";
inline constexpr const char* kLeave = "update tracewright_fleet.builders set is_gone = true where id = $1";
inline constexpr const char* kNotifyMachines = "select pg_notify('tracewright_trials', '')";

// ---- what `fleet` shows

// $1: seconds after which a builder is gone.
inline constexpr const char* kBuilders = R"(
select name, version, targets, key, built, failed, faults,
  round(extract(epoch from clock_timestamp() - heartbeat) * 1000)::bigint,
  is_gone or heartbeat < clock_timestamp() - make_interval(secs => $1::bigint)
from tracewright_fleet.builders order by id)";
// Targets that machines want built code for: how many trials wait for it, how many builders there are. $1: seconds.
inline constexpr const char* kUnbuilt = R"(
with wanted as (
  select distinct w.target, w.kind from tracewright_fleet.builds_wanted w
  join tracewright_fleet.machines m on m.id = w.machine
  where not m.is_gone and m.heartbeat >= clock_timestamp() - make_interval(secs => $1::bigint))
select w.target, w.kind,
  (select count(*) from tracewright_fleet.trials t where t.target = w.target and t.state = 'queued' and not exists
    (select 1 from tracewright_fleet.builds b where b.trial = t.id and b.kind = w.kind and b.content is not null)),
  (select count(*) from tracewright_fleet.builds_offered o join tracewright_fleet.builders b on b.id = o.builder
   where o.target = w.target and o.kind = w.kind and not b.is_gone
     and b.heartbeat >= clock_timestamp() - make_interval(secs => $1::bigint))
from wanted w order by w.target, w.kind)";

}  // namespace tw::build_sql
