#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicted against published step times: every public row that says tokens/s.

    step_times.py FSDPSIM [--csv FILE] [--only TEXT]

Reads public_steps.csv.gz (README.md says where from), runs `fsdpsim predict` with the settings of
each row and prints a table, worst rows first within each part. A row that cannot be said to
fsdpsim is left out, with the reason. Nothing in models/ is fitted to these rows.
"""
import argparse
import collections
import concurrent.futures
import csv
import gzip
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading

FOLDER = pathlib.Path(__file__).resolve().parent
MODELS = FOLDER.parents[1] / "models"

# How rows name models that ship (models/nets).
NETS = {
    "Llama3-8B": "llama-3.1-8b",
    "Llama3-70B": "llama-3.1-70b",
    "Llama3.1-405B": "llama-3.1-405b",
    "Llama2-7B": "llama-2-7b",
    "Llama2-13B": "llama-2-13b",
    "Llama2-70B": "llama-2-70b",
    "Llama3.2-1B": "llama-3.2-1b",
    "Llama3.2-3B": "llama-3.2-3b",
    "Qwen3-32B": "qwen3-32b",
    "Qwen3-14B": "qwen3-14b",
    "Qwen3-1.7B": "qwen3-1.7b",
}

# Prefixes of gpu_type, the first that fits.
CLUSTERS = [
    ("H100-96GB", "h100-96gb"),
    ("H100 (95 GiB)", "h100-96gb"),
    ("H100-80GB", "h100"),
    ("h100_80gb", "h100"),
    ("H100", "h100"),
    ("H200", "h200"),
    ("a100_40gb", "a100-40gb"),
    ("a100_80gb", "a100"),
    ("A100", "a100"),
    ("MI300X", "mi300x"),
    ("B200 (178 GiB)", "b200"),
]

# What a row cannot be said for: (columns, pattern, reason), the first that fits.
LEFT_OUT = [
    ("source", r"Megatron|NeMo Automodel", "another implementation of FSDP, TE kernels"),
    ("strategy", r"YaFSDP", "another implementation of FSDP"),
    ("compile", r"thunder", "another compiler"),
    ("strategy", r"TP|CP\d|EP\d|PP", "tensor, context, expert or pipeline parallelism"),
    ("other param_dtype", r"fp8|float8|mxfp8|nvfp4|NVFP4|FP8", "8 or 4 bit products"),
    ("other activation_checkpointing", r"offload(?!=False)|ILP", "activations offloaded"),
    ("other", r"act_offload=True", "activations offloaded"),
    ("gpu_type", r"power limited", "a GPU with a power limit that is not stated"),
    ("gpu_type", r"MI300X", "GPU without calibrated kernels"),
    ("model", r"MoE|DeepSeek|GPT-OSS|Nemotron", "a model that does not ship"),
    ("activation_checkpointing", r"^unknown$|^\d+ layers checkpointed", "checkpointing not stated"),
    ("source", r"torchtune", "LoRA, or tokens/s of an unstated number of GPUs"),
    ("notes", r"GC cycle leak", "a run with a leak"),
    ("strategy", r"FSDP/HSDP", "FSDP or HSDP not stated"),
]


def refuse(row):
    """Why the row cannot be predicted, or None."""
    for columns, pattern, reason in LEFT_OUT:
        text = " ".join(row[column] for column in columns.split())
        if columns == "activation_checkpointing" and text == "0 layers checkpointed":
            continue
        if re.search(pattern, text):
            return reason
    if not row["model"].startswith("MPT-") and row["model"] not in NETS:
        return "a model that does not ship"
    for column in ("seq_len", "local_batch", "gpus"):
        if not row[column]:
            return f"{column} not stated"
    if find_cluster(row) is None:
        return "a GPU that does not ship"
    return None


def find_cluster(row):
    for prefix, name in CLUSTERS:
        if row["gpu_type"].startswith(prefix):
            return name
    return None


def cluster_options(row):
    """The network of a node where the row or its source says what it is."""
    cluster = find_cluster(row)
    nodes = int(row["nodes"] or 1)
    per_node = int(row["gpus"]) // nodes
    text = row["other"] + row["notes"]
    nic = None
    if "1600 Gbps" in text:
        nic = 1600 / 8
    found = re.search(r"node network (\d+) Gb/s", text)
    if found:
        nic = int(found.group(1)) / 8
    if nodes > 1 and (nic is not None or per_node != 8):
        said = f" nic:{nic:g}Gb/s" if nic is not None else ""
        return ["--cluster", f"node:{nodes} gpu:{per_node} type:{cluster}{said}"]
    return ["--cluster", cluster, "--gpus", row["gpus"]]


def checkpoint_options(row):
    said = row["activation_checkpointing"]
    if said.startswith("full"):
        return ["--checkpoint", "full"]
    if said.startswith("selective_layer(2)"):
        return ["--checkpoint", "every:2"]
    if said.startswith("selective"):
        return ["--checkpoint", "selective"]
    return ["--checkpoint", "none"]


def strategy_options(row):
    said = row["strategy"]
    options = []
    if row["fsdp_version"] == "1":
        options += ["--api", "fsdp1"]
        if "SHARD_GRAD_OP" in said:
            options += ["--strategy", "shard_grad_op"]
        elif "HSDP" in said:
            options += ["--strategy", "hybrid_shard"]
    elif "reshard_after_forward=False" in said or "never" in row["other"]:
        options += ["--reshard-after-forward", "false"]
    elif "always" in row["other"] or "reshard_after_forward=True" in row["other"]:
        options += ["--reshard-after-forward", "true"]
    elif "torchtitan" in row["source"]:
        options += ["--reshard-after-forward", "last-block-kept"]
    return options


def net_of(row, folder):
    """The file of the row's model.

    llm-foundry's MPT runs attention with ALiBi in a flash kernel of its own, which transformers'
    MPT (what models/nets/mpt-* are) does not: a GPT-2 of the same dimensions with an exact GELU
    launches the same products and kernels.
    """
    if not row["model"].startswith("MPT-"):
        return MODELS / "nets" / f"{NETS[row['model']]}.json"
    path = folder / f"{row['model']}.json"
    if path.exists():
        return path
    with open(MODELS / "nets" / f"{row['model'].lower()}.json", encoding="utf-8") as file:
        mpt = json.load(file)
    gpt2 = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": mpt["d_model"],
        "n_head": mpt["n_heads"], "n_layer": mpt["n_layers"], "vocab_size": mpt["vocab_size"],
        "n_positions": 2048, "activation_function": "gelu",
        "n_inner": mpt["d_model"] * mpt["expansion_ratio"],
        "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0, "torch_dtype": "float32",
    }
    unfinished = path.with_suffix(f".{threading.get_ident()}")
    unfinished.write_text(json.dumps(gpt2), encoding="utf-8")
    return unfinished.replace(path)


def norm_options(row):
    """nn.RMSNorm has one fused kernel since PyTorch 2.9 (aten/src/ATen/native/cuda/
    layer_norm_kernel.cu); before, and in model code that spells it out, it is composite."""
    date = re.search(r"20(2\d)-(\d\d)", row["notes"] + row["other"])
    is_new = date is not None and (int(date.group(1)), int(date.group(2))) >= (25, 9)
    if row["model"].startswith(("Llama", "Qwen")) and part_of(row) == "eager" and not is_new:
        return ["--norm", "composite"]
    return []


def options_of(row, folder):
    """The settings of ROW as options of `fsdpsim predict`."""
    options = [str(net_of(row, folder)), "--seq", row["seq_len"]]
    options += ["--batch", row["local_batch"], "--hbm", "unlimited", "--steps", "2"]
    options += cluster_options(row) + checkpoint_options(row) + strategy_options(row)
    options += norm_options(row)
    found = re.search(r"grad_accum=(\d+)", row["other"])
    if found:
        options += ["--accumulate", found.group(1)]
    if row["param_dtype"] in ("bf16", "fp16"):
        options += ["--param-dtype", row["param_dtype"].replace("fp", "f")]
    if row["reduce_dtype"]:
        options += ["--reduce-dtype", row["reduce_dtype"].replace("fp", "f")]
    if "bf16 states" in row["optimizer"]:
        options += ["--store-dtype", "bf16"]
    if "chunked cross-entropy" in row["other"]:
        options += ["--loss", "chunked:8"]
    if row["source"].startswith(("YaFSDP", "fms-fsdp")):
        options += ["--code", "transformers"]
    return options


def predict(program, row, folder):
    """(tokens/s a GPU, host-bound part), or an error message."""
    done = subprocess.run(
        [program, "predict", *options_of(row, folder), "--json", "-"],
        capture_output=True, text=True, check=False,
        env={**os.environ, "FSDPSIM_MODELS": str(MODELS)},
    )
    if done.returncode not in (0, 1):
        return done.stderr.strip()
    summary = json.loads(done.stdout)
    if not summary.get("throughput") or not summary["time"]:
        return "no time: out of memory or a deadlock"
    time = summary["time"]
    return summary["throughput"]["tokens_per_second_per_gpu"], time


def label_of(row):
    gpus = f"{row['gpus']}x{find_cluster(row)}"
    what = f"{row['model']} s{row['seq_len']} b{row['local_batch']} {gpus}"
    return f"{row['source'][:24]:24} {what:38} {row['activation_checkpointing'][:12]:12}"


def part_of(row):
    return "compiled" if row["compile"].startswith("yes") else "eager"


def print_part(name, rows):
    rows.sort(key=lambda row: -abs(row["error"]))
    print(f"\n{name}: {len(rows)} rows")
    print(f"{'source':24} {'job':38} {'checkpoint':12} {'real':>8} {'here':>8}  error"
          "  exposed waiting host")
    for row in rows:
        time = row["time"]
        parts = [time[key] / time["step"] for key in
                 ("exposed_communication", "waiting", "host_bound")]
        print(f"{label_of(row['row'])} {row['real']:8.0f} {row['here']:8.0f} {row['error']:+6.1%}"
              f"   {parts[0]:6.1%} {parts[1]:6.1%} {parts[2]:5.1%}")
    errors = [abs(row["error"]) for row in rows]
    print(f"{name}: median of the absolute error {statistics.median(errors):.1%}, of the error "
          f"{statistics.median(row['error'] for row in rows):+.1%}")
    by_source = collections.defaultdict(list)
    for row in rows:
        by_source[f"{row['row']['source']} {find_cluster(row['row'])}"].append(row["error"])
    for source, errors in sorted(by_source.items()):
        print(f"  {source:44} {len(errors):4} rows, median error {statistics.median(errors):+6.1%}")


def print_scaling(program, rows):
    """Ratios of tokens/s a GPU from one size of cluster to a larger one."""
    print("\nscaling: tokens/s a GPU of the larger job over those of the smaller")
    for what, wanted, base in (
        ("Llama3-8B", [("torchtitan benchmarks", "2", "8"), ("torchtitan benchmarks", "2", "128")],
         "no"),
        ("MPT-7b", None, "no"),
    ):
        if wanted is None:
            chosen = [row for row in rows if row["row"]["model"] == what
                      and row["row"]["gpu_type"] == "h100_80gb" and row["row"]["seq_len"] == "2048"
                      and row["row"]["param_dtype"] == "bf16"
                      and round(row["real"]) in (10643, 10475, 10119, 9670)]
        else:
            chosen = [row for row in rows if row["row"]["model"] == what
                      and row["row"]["compile"] == base
                      and (row["row"]["source"], row["row"]["local_batch"], row["row"]["gpus"])
                      in wanted]
        chosen.sort(key=lambda row: int(row["row"]["gpus"]))
        for row in chosen[1:]:
            real = row["real"] / chosen[0]["real"]
            here = row["here"] / chosen[0]["here"]
            print(f"  {what} {chosen[0]['row']['gpus']} -> {row['row']['gpus']} GPUs: "
                  f"real {real:.3f}, here {here:.3f}, {here / real - 1:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("program")
    parser.add_argument("--csv", help="also write the rows to this file")
    parser.add_argument("--only", default="", help="rows whose label holds this text")
    arguments = parser.parse_args()
    with gzip.open(FOLDER / "public_steps.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    left_out = collections.Counter()
    todo = []
    for row in rows:
        reason = refuse(row)
        if reason is not None:
            left_out[reason] += 1
        elif row["model"].startswith("MPT-") and int(row["seq_len"]) > 2048:
            left_out["ALiBi attention in a Triton kernel that nobody has measured, "
                     "where attention decides"] += 1
        elif arguments.only in label_of(row):
            todo.append(row)
    with (tempfile.TemporaryDirectory() as folder,
          concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
        answers = list(pool.map(
            lambda row: predict(arguments.program, row, pathlib.Path(folder)), todo))
    parts = {"eager": [], "compiled": []}
    for row, answer in zip(todo, answers):
        if isinstance(answer, str):
            left_out[answer] += 1
            continue
        real = float(row["tokens_per_s_per_gpu"])
        parts[part_of(row)].append({"row": row, "real": real, "here": answer[0],
                                    "error": answer[0] / real - 1, "time": answer[1]})
    for name, found in parts.items():
        if found:
            print_part(name, found)
    print_scaling(arguments.program, parts["eager"])
    print("\nleft out:")
    for reason, count in left_out.most_common():
        print(f"  {count:4} {reason}")
    if arguments.csv:
        with open(arguments.csv, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["part", "job", "real", "here", "error"])
            for name, found in parts.items():
                for row in found:
                    writer.writerow([name, label_of(row["row"]), row["real"], round(row["here"], 1),
                                     round(row["error"], 4)])


if __name__ == "__main__":
    sys.exit(main())
