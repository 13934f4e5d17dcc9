// What a role may do to rows of the queue that are not its own: triggers, made together with the tables of queue_sql.h.
// Grants say which columns a role may write; a guard says in which rows, and when. The inside of trial_queue.cc.
//
// A tuner or machine belongs to the role whose session added it (session_user, which SET ROLE does not change). Rows
// without a role are of before there were guards, and belong to everybody. The owner of the tables may do everything,
// but texts are not too long in its rows, either.
// Times of heartbeats and leases are the server's, whatever a statement says.
#pragma once

namespace tw::guard_sql {

// Functions have a search_path of their own: else a role could put operators of its own in front.
inline constexpr const char* kGuards = R"(
alter table tracewright_fleet.tuners add column if not exists role name;
alter table tracewright_fleet.tuners alter column role set default session_user;
alter table tracewright_fleet.machines add column if not exists role name;
alter table tracewright_fleet.machines alter column role set default session_user;
alter table tracewright_fleet.faults add column if not exists role name;
alter table tracewright_fleet.faults alter column role set default session_user;

create or replace function tracewright_fleet.refuse(what text) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  raise insufficient_privilege using message = what;
end $$;

create or replace function tracewright_fleet.is_result(record bigint, workload text, target text, program text)
returns boolean language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select exists (select from tracewright.records r where r.id = is_result.record and r.workload = is_result.workload
    and r.target = is_result.target and r.program = is_result.program) $$;

-- The first record of a program on machines of a kind, for machines that may not read records; null = there is none.
create or replace function tracewright_fleet.known_result(workload text, target text, program text, machine_key bigint)
returns bigint language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select min(r.id) from tracewright.records r where r.program = known_result.program
    and r.workload = known_result.workload and r.target = known_result.target
    and r.machine_key = known_result.machine_key $$;

create or replace function tracewright_fleet.guard_tuner() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'member') then
    return coalesce(new, old);
  end if;
  if tg_op = 'DELETE' then
    if coalesce(old.role, session_user) <> session_user and
        old.heartbeat >= clock_timestamp() - interval '60 seconds' then
      perform tracewright_fleet.refuse('a tuner that lives is removed by its own role only');
    end if;
    return old;
  end if;
  if tg_op = 'UPDATE' and coalesce(old.role, session_user) <> session_user then
    perform tracewright_fleet.refuse('a tuner is changed by its own role only');
  end if;
  new.role := session_user;
  new.heartbeat := clock_timestamp();
  return new;
end $$;

create or replace function tracewright_fleet.guard_target() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'member') then
    return coalesce(new, old);
  end if;
  if exists (select from tracewright_fleet.tuners t where t.id = coalesce(new.tuner, old.tuner)
        and coalesce(t.role, session_user) = session_user) then return coalesce(new, old); end if;
  if tg_op <> 'UPDATE' then
    perform tracewright_fleet.refuse('what a tuner wants is said by its own role only');
  elsif old.machine is not null then
    perform tracewright_fleet.refuse('a machine has been found for this target already');
  end if;
  return new;
end $$;

create or replace function tracewright_fleet.guard_machine() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
  lost bigint;
begin
  if tg_op <> 'DELETE' and (octet_length(new.name) > 1024 or octet_length(new.host) > 1024 or
      octet_length(new.version) > 1024 or octet_length(new.targets) > 65536 or octet_length(new.drivers) > 4096) then
    raise check_violation using message = 'a text of a machine is too long';
  end if;
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'member') then
    return coalesce(new, old);
  end if;
  if tg_op = 'DELETE' then
    if coalesce(old.role, session_user) <> session_user and old.heartbeat >= clock_timestamp() - interval '7 days' then
      perform tracewright_fleet.refuse('a machine is removed by its own role only');
    end if;
    return old;
  end if;
  if tg_op = 'INSERT' then
    new.role := session_user;
    new.heartbeat := clock_timestamp();
    return new;
  end if;
  if coalesce(old.role, session_user) <> session_user then
    -- Whoever finds that its lease ran out counts that.
    lost := new.lost;
    new.lost := old.lost;
    if new is distinct from old or lost < old.lost then
      perform tracewright_fleet.refuse('a machine is changed by its own role only');
    end if;
    new.lost := lost;
    return new;
  end if;
  new.role := session_user;
  new.heartbeat := least(new.heartbeat, clock_timestamp());
  return new;
end $$;

create or replace function tracewright_fleet.guard_trial() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
  longest constant interval := interval '15 minutes';
  ran_out boolean;
begin
  if tg_op <> 'DELETE' and (octet_length(new.workload) <> 32 or octet_length(new.program) <> 32 or
      octet_length(new.target) > 4096 or octet_length(new.trace) > 1048576 or octet_length(new.task) > 1024 or
      octet_length(new.wanted) > 256 or octet_length(new.message) > 4096 or
      new.state not in ('queued', 'leased', 'done')) then
    raise check_violation using message = 'a text of a trial is too long or of a wrong form';
  end if;
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'member') then
    return coalesce(new, old);
  end if;
  if tg_op <> 'UPDATE' then
    if not exists (select from tracewright_fleet.tuners t where t.id = coalesce(new.tuner, old.tuner)
        and coalesce(t.role, session_user) = session_user) then
      perform tracewright_fleet.refuse('trials are put in and removed by the role of their tuner only');
    end if;
    if tg_op = 'INSERT' then
      new.state := 'queued';
      new.losses := 0;
      new.machine := null; new.lease := null; new.leased := null; new.deadline := null;
      new.lost_by := null; new.lost := null; new.record := null; new.fault := null; new.message := null;
    end if;
    return coalesce(new, old);
  end if;
  if new.state = old.state and
      (new.machine, new.lease, new.leased, new.deadline, new.losses, new.lost_by, new.lost, new.record, new.fault,
       new.message) is not distinct from
      (old.machine, old.lease, old.leased, old.deadline, old.losses, old.lost_by, old.lost, old.record, old.fault,
       old.message) then
    return new;  -- it is put in once more
  end if;
  if old.state = 'queued' and new.state = 'leased' then
    if not exists (select from tracewright_fleet.machines m where m.id = new.machine
        and coalesce(m.role, session_user) = session_user) or new.losses <> old.losses or
        new.record is not null or new.fault is not null then
      perform tracewright_fleet.refuse('a trial is leased by a machine of its own role only');
    end if;
    new.leased := clock_timestamp();
    new.deadline := least(new.deadline, new.leased + longest);
    return new;
  end if;
  if old.state <> 'leased' then perform tracewright_fleet.refuse('the trial is not leased'); end if;
  ran_out := old.deadline < clock_timestamp();
  if ran_out and new.losses = old.losses + 1 and new.lost_by is not distinct from old.machine and new.record is null
      and (new.state = 'queued' and new.fault is null or
           new.state = 'done' and new.fault = 'machine lost' and old.losses > 0) then
    new.lost := clock_timestamp();
    return new;
  end if;
  if not exists (select from tracewright_fleet.machines m where m.id = old.machine
        and coalesce(m.role, session_user) = session_user) then
    perform tracewright_fleet.refuse('the lease is one of another role');
  elsif new.losses <> old.losses then
    perform tracewright_fleet.refuse('the lease has not run out');
  end if;
  if new.state = 'leased' then
    if (new.machine, new.lease, new.leased, new.record) is distinct from
       (old.machine, old.lease, old.leased, old.record) then
      perform tracewright_fleet.refuse('a lease that is prolonged stays what it is');
    end if;
    new.deadline := least(new.deadline, old.leased + longest);
  elsif new.state = 'done' then
    if (new.record is null) = (new.fault is null) then
      perform tracewright_fleet.refuse('a trial ends with a record or a fault');
    end if;
    if new.fault is null and not tracewright_fleet.is_result(new.record, old.workload, old.target, old.program) then
      perform tracewright_fleet.refuse('the record is no result of this trial');
    end if;
  end if;
  return new;
end $$;

create or replace function tracewright_fleet.guard_fault() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'member') then
    return coalesce(new, old);
  end if;
  if tg_op = 'INSERT' then
    new.role := session_user;
    new.at := clock_timestamp();
    return new;
  end if;
  if tg_op = 'UPDATE' or old.at >= clock_timestamp() - interval '30 days' then
    perform tracewright_fleet.refuse('a fault is removed after 30 days, and changed by nobody');
  end if;
  return old;
end $$;

-- Of tables whose rows belong to a machine. Rows of a machine that is removed go with it.
create or replace function tracewright_fleet.guard_of_machine() returns trigger language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if pg_has_role(current_user, (select relowner from pg_class where oid = tg_relid), 'member') then
    return coalesce(new, old);
  end if;
  if exists (select from tracewright_fleet.machines m where m.id in (old.machine, new.machine)
      and coalesce(m.role, session_user) <> session_user) then
    perform tracewright_fleet.refuse('what belongs to a machine is changed by its own role only');
  end if;
  return coalesce(new, old);
end $$;

drop trigger if exists guard on tracewright_fleet.tuners;
create trigger guard before insert or update or delete on tracewright_fleet.tuners
  for each row execute function tracewright_fleet.guard_tuner();
drop trigger if exists guard on tracewright_fleet.targets;
create trigger guard before insert or update or delete on tracewright_fleet.targets
  for each row execute function tracewright_fleet.guard_target();
drop trigger if exists guard on tracewright_fleet.machines;
create trigger guard before insert or update or delete on tracewright_fleet.machines
  for each row execute function tracewright_fleet.guard_machine();
drop trigger if exists guard on tracewright_fleet.trials;
create trigger guard before insert or update or delete on tracewright_fleet.trials
  for each row execute function tracewright_fleet.guard_trial();
drop trigger if exists guard on tracewright_fleet.faults;
create trigger guard before insert or update or delete on tracewright_fleet.faults
  for each row execute function tracewright_fleet.guard_fault();
drop trigger if exists guard on tracewright_fleet.calibrations;
create trigger guard before insert or update or delete on tracewright_fleet.calibrations
  for each row execute function tracewright_fleet.guard_of_machine();
drop trigger if exists guard on tracewright_fleet.failures;
create trigger guard before insert or update or delete on tracewright_fleet.failures
  for each row execute function tracewright_fleet.guard_of_machine();
drop trigger if exists guard on tracewright_fleet.builds_wanted;
create trigger guard before insert or update or delete on tracewright_fleet.builds_wanted
  for each row execute function tracewright_fleet.guard_of_machine();
)";

// $1 ... $4: workload, target, program, key of the machine.
inline constexpr const char* kKnownResult = "select tracewright_fleet.known_result($1, $2, $3, $4::bigint)";

// What is left of a role in the queue, whatever its machines said of themselves.
inline constexpr const char* kRemoveFaults = "delete from tracewright_fleet.faults where role = $1";
inline constexpr const char* kRemoveMachines = "delete from tracewright_fleet.machines where role = $1";

}  // namespace tw::guard_sql
