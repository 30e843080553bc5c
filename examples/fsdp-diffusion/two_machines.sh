#!/bin/sh
# Train on two machines: run this on both, with RANK 0 on the first one and 1 on the second one.
# usage: two_machines.sh RANK ADDRESS_OF_THE_FIRST_MACHINE
exec torchrun --nnodes 2 --node_rank "$1" --nproc_per_node 2 --master_addr "$2" --master_port 29500 src/train_diffusion.py
