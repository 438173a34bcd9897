#!/usr/bin/env bash
# A search on a Slurm cluster: a Ray head on the first node, a worker on every other one, and the search as a job on them.
# In an environment with `pip install 'bandsmith[cluster]'` (on GPU nodes `[cluster,cuda12]`) that all nodes see:
#
#     sbatch launch/cluster/slurm.sh --iterations 1024 --participations 4 --epsilon 4 --delta 1e-5
#     sbatch --nodes 8 --gpus-per-node 1 launch/cluster/slurm.sh --iterations 1024 --participations 4 --epsilon 4 --delta 1e-5 --gpus-per-trial 0.25
#
# What follows the script are options of `bandsmith tune`. The results are in runs/JOB, also of a search that ran out of time: five minutes
# before the end it is stopped, and a later `sbatch launch/cluster/slurm.sh --resume "$PWD/runs/JOB"` goes on.
#SBATCH --job-name=bandsmith
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=08:00:00
#SBATCH --signal=B:TERM@300
#SBATCH --output=bandsmith-%j.log
set -euo pipefail

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
read -r head_address _ < <(srun --nodes=1 --ntasks=1 --nodelist="${nodes[0]}" hostname -I)
# Other jobs may run a Ray of their own on these nodes.
port=$((20000 + SLURM_JOB_ID % 10000))
dashboard_port=$((port + 10000))
export RAY_API_SERVER_ADDRESS=http://127.0.0.1:$dashboard_port
export RAY_AUTH_MODE=token RAY_AUTH_TOKEN RAY_USAGE_STATS_ENABLED=0
RAY_AUTH_TOKEN=$(od -A n -N 32 -t x1 /dev/urandom | tr -d ' \n')

started=()
start_ray() { # index of the node, options of `ray start`
	srun --nodes=1 --ntasks=1 --nodelist="${nodes[$1]}" ray start --block --num-cpus="${SLURM_CPUS_PER_TASK:-1}" \
		--temp-dir="/tmp/ray-$SLURM_JOB_ID-$1" --dashboard-agent-listen-port=0 "${@:2}" &
	started+=($!)
}
trap 'kill "${started[@]}" ${waiting:+"$waiting"} 2>/dev/null || true; wait' EXIT

start_ray 0 --head --port="$port" --dashboard-host=127.0.0.1 --dashboard-port="$dashboard_port" --ray-client-server-port=$((port + 20000))
for ((index = 1; index < ${#nodes[@]}; index++)); do
	start_ray "$index" --address="$head_address:$port"
done

timeout 600 python - "$head_address:$port" "${#nodes[@]}" "$dashboard_port" <<'PYTHON' &
import logging, socket, sys, time
import ray

address, nodes, dashboard_port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
while True:
    try:
        socket.create_connection(("127.0.0.1", dashboard_port)).close()
        break
    except OSError:
        time.sleep(1)
ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < nodes:
    time.sleep(1)
PYTHON
waiting=$!
while kill -0 "$waiting" 2>/dev/null; do
	for process in "${started[@]}"; do
		kill -0 "$process" 2>/dev/null || { echo "A node's Ray has ended before the search began." >&2; exit 1; }
	done
	sleep 1
done
wait "$waiting"

bandsmith submit --job-id "$SLURM_JOB_ID" --head-folder "/tmp/bandsmith-$SLURM_JOB_ID" --out "runs/$SLURM_JOB_ID" -- tune "$@" &
search=$!
trap 'bandsmith submit --stop "$SLURM_JOB_ID" >&2 || true' TERM
code=0
# The trap ends a `wait` early; the search then still writes and sends what it has.
while kill -0 "$search" 2>/dev/null; do
	wait "$search" && code=0 || code=$?
done
exit "$code"
