#!/bin/bash
# A sweep over the nodes of a Slurm cluster, to be copied and changed: sbatch slurm.sh
#
# Ranks are processes; each keeps as many runs at work as it has cores. One rank a node is enough for a sweep. Started
# again, by hand or by --requeue, the same script finishes what is missing.
#SBATCH --job-name=circe-table1
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --signal=TERM@120

set -euo pipefail

# On a file system that all nodes see.
results=${RESULTS:-$PWD/results/table1}

# `srun --mpi=list` shows what the cluster offers; where circe was built with MPICH or Intel MPI, use pmi2.
launch=(srun --mpi="${MPI:-pmix}" --cpu-bind=cores)

export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

"${launch[@]}" circe experiment table1 -o "$results"

# A dense fit instead: many ranks, each with M^2 / N of the kernel matrix (docs/cluster.md has how much that is).
#
#   #SBATCH --nodes=8 --ntasks-per-node=8 --cpus-per-task=4
#   srun --mpi=pmix circe fit --y y.npy --z z.npy --method dense --threads 4 -o model.safetensors

# One network by all ranks, with batches of all of them together; --resume goes on after a time limit, with any number.
#
#   #SBATCH --nodes=2 --ntasks-per-node=32 --cpus-per-task=1
#   resume=(); [[ -e model.safetensors.checkpoint ]] && resume=(--resume)
#   srun --mpi=pmix circe train --data d.csv --features a,y,z --target b --given y --invariant-to z --regularizer circe \
#       --gamma 1000 --batch 8192 --checkpoint-minutes 10 "${resume[@]}" -o model.safetensors
