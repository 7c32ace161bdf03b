#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bash tests/accuracy/fit_kernels.sh PROGRAM: every fit that models/kernels rests on, in the order in which
# they depend on each other (a backward is fitted beside its forward). PROGRAM is fit_kernels, built with
# -DFSDPSIM_BENCH=ON. Prints constants and errors; what it prints is entered by hand. Some ten minutes.
set -euo pipefail
program=$1

fit() {
    echo "== $*"
    "$program" "$@"
}

for gpu in a100:a100_sxm h100:h100_sxm h200:h200_sxm b200:b200_sxm gb200:gb200 b300:b300_sxm l40s:l40s; do
    fit gemm "${gpu%:*}" "${gpu#*:}"
done

fit attention a100 flash2 forward causal a100_sxm
for gpu in h100 h200; do
    fit attention "$gpu" vllm_fa3 forward causal "${gpu}_sxm"
    fit attention "$gpu" vllm_fa3 forward full "${gpu}_sxm"
done
for gpu in b200:b200_sxm gb200:gb200 b300:b300_sxm; do
    fit attention "${gpu%:*}" vllm_trtllm forward causal "${gpu#*:}"
    fit attention "${gpu%:*}" vllm_fa4 forward full "${gpu#*:}"
done
fit attention l40s flash2 forward causal l40s
fit attention l40s flash2 forward full l40s

for direction in forward backward; do
    for mask in causal full; do
        fit training h100 flash2 "$direction" "$mask"
        fit training h200 cudnn "$direction" "$mask"
        fit training gb200 cudnn "$direction" "$mask"
        # B300 takes GB300's fractions; GB300 has the peaks of GB200.
        fit training gb200 cudnn "$direction" "$mask" GB300
    done
    fit training h100 cudnn "$direction" full
    fit training h100 flash3 "$direction" full
    fit training b200 flash2 "$direction" full
done
fit training h100 cudnn forward causal
fit training h100 flash3 forward causal
fit training a100 flash2 backward causal
fit training a100 flash2 backward full

for gpu in a100 h100 h200 b200 gb200; do
    fit traffic "$gpu" norm
done
for gpu in h100 h200 gb200; do
    fit traffic "$gpu" norm_grad
done
fit traffic gb200 norm GB300
fit traffic gb200 norm_grad GB300
fit traffic a100 softmax
fit traffic h100 optimizer
