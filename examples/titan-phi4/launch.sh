#!/usr/bin/env bash
# One card, the paper's rank.
set -euo pipefail
cd "$(dirname "$0")"
exec python src/train_single_config_remote.py --config paper_r64 --bf16 True --tf32 True
