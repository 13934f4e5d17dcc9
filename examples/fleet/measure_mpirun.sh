#!/bin/bash
# Starts `tracewright measure` on each host of a host file ("node1 slots=1", one a line) with Open MPI's mpirun, which is
# only the launcher here: the processes know nothing of each other. Ctrl-C takes all machines back.
#   ./measure_mpirun.sh HOSTFILE postgresql://worker@db.example/tw
set -euo pipefail
hosts=${1:?say HOSTFILE and ADDRESS} database=${2:?say HOSTFILE and ADDRESS}

# One process a host, on all of its cores: two of them would disturb each other's times. One that ends by itself does not
# end the others.
exec mpirun --hostfile "$hosts" --map-by ppr:1:node --bind-to none --mca orte_abort_on_non_zero_status 0 \
  tracewright measure --database "$database"
