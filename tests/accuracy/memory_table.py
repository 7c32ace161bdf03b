# SPDX-License-Identifier: Apache-2.0
"""python3 tests/accuracy/memory_table.py PROGRAM [FILE]: one table (CSV) of predicted and real memory.

Three sources: whole jobs in PyTorch's own allocator (tests/oracle/steps, jobs, jobs_fsdp1), each phase of
each step, and numbers that people have published (memory.csv.gz), each row of which is either predicted or
left out with the reason. A summary goes to standard error.
"""
import collections
import csv
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS = ["source", "job", "arguments", "step", "phase", "quantity", "predicted_bytes", "real_bytes",
           "error_percent", "left_out"]
UNITS = {"GiB": 2**30, "GB": 10**9}

# Published rows of memory.csv.gz (by number, from 0) whose settings can be said: model, options, and the
# step whose peak it is (0 = before the first step; None = the last). What a source does not say is as its
# code was then: the norm became nn.RMSNorm in August 2024, the last block's parameters were kept and blocks
# were the only units besides the root until 2025, expandable segments came with October 2024.
TITAN = "--seq 8192 --checkpoint selective --wrap block+root --reshard-after-forward last-block-kept"
EXPANDABLE = " --allocator expandable_segments:True"
LLAMA2 = "--gpus 8 --seq 2048 --batch 8 --wrap block+root --reshard-after-forward last-block-kept --norm composite"
PUBLISHED = {
    0: ("llama-3.1-8b", f"--gpus 8 {TITAN} --reshard-after-forward true{EXPANDABLE}", None),
    1: ("llama-3.1-8b", f"--gpus 8 {TITAN} --reshard-after-forward false{EXPANDABLE}", None),
    2: ("llama-3.1-8b", f"--gpus 8 {TITAN}{EXPANDABLE}", 0),
    3: ("llama-3.1-8b", f"--gpus 8 {TITAN}{EXPANDABLE}", None),
    5: ("llama-3.1-8b", f"--gpus 8 {TITAN}{EXPANDABLE}", None),
    6: ("llama-3.1-8b", f"--gpus 8 {TITAN}{EXPANDABLE}", None),
    8: ("llama-3.1-8b", f"--gpus 8 {TITAN} --wrap block{EXPANDABLE}", None),
    18: ("llama-3.1-8b", f"--gpus 8 --batch 2 {TITAN} --norm composite", None),
    19: ("llama-3.1-8b", f"--gpus 8 {TITAN} --checkpoint none --norm composite --reshard-after-forward true", None),
    22: ("llama-3.1-8b", f"--gpus 8 --cluster a100 {TITAN} --norm composite", None),
    23: ("llama-3.1-8b", f"--gpus 8 --cluster a100 {TITAN}{EXPANDABLE}", 1),
    26: ("llama-3.1-8b", f"--gpus 8 {TITAN} --wrap block{EXPANDABLE}", None),
    60: ("llama-2-7b", f"{LLAMA2} --api fsdp1 --checkpoint full", None),
    61: ("llama-2-7b", f"{LLAMA2} --api fsdp1 --checkpoint full", None),
    64: ("llama-2-7b", f"{LLAMA2} --checkpoint full", None),
    65: ("llama-2-7b", f"{LLAMA2} --checkpoint full", None),
    136: ("llama-3.1-8b", f"--gpus 8 {TITAN} --checkpoint none", 1),
    137: ("llama-3.1-8b", f"--gpus 8 {TITAN} --checkpoint none", 1),
    138: ("llama-3.1-8b", f"--gpus 8 {TITAN} --checkpoint none", None),
    172: ("llama-2-7b", "--gpus 8 --seq 4096 --store-dtype bf16 --reduce-dtype bf16 --reshard-after-forward false --clip off", None),
    208: ("qwen2.5-1.5b", "--gpus 8 --seq 128 --batch 2 --reduce-dtype bf16 --clip off", None),
    209: ("qwen2.5-1.5b", "--gpus 8 --seq 128 --batch 2 --reduce-dtype bf16 --clip off", None),
    215: (None, "--gpus 8 --seq 4096 --batch 4 --accumulate 4 --gradient-sync last --checkpoint full", None),
    599: ("llama-3.1-8b", f"--gpus 8 --batch 2 {TITAN} --norm composite", None),
    600: ("llama-3.1-8b", f"--gpus 128 --batch 2 {TITAN} --norm composite", None),
}
# Rows that look as if they could be said, and why they cannot.
UNSAID = {
    4: "another chunked loss: on chunks of whole logits",
    7: "a garbage-collection leak, no steady state",
    15: "float8",
    44: "torchtitan's Qwen3 code",
    51: "dimensions are not printed",
    62: "which selective checkpointing (early 2024: every n-th block or per operator) is not said",
    63: "which selective checkpointing (early 2024: every n-th block or per operator) is not said",
    66: "which selective checkpointing (early 2024: every n-th block or per operator) is not said",
    67: "which selective checkpointing (early 2024: every n-th block or per operator) is not said",
    221: "KempnerForge's mixture of experts",
    222: "KempnerForge's mixture of experts",
    223: "KempnerForge's mixture of experts",
}


def find_reason(number, row):
    """Why a published row is not predicted."""
    words = " ".join((row["strategy"], row["param_dtype"], row["other"], row["activation_checkpointing"])).lower()
    if number in UNSAID:
        return UNSAID[number]
    if not row["peak_mem_value"]:
        return "no memory is given"
    if row["compile"] not in ("no", ""):
        return "compiled"
    if any(word in words for word in ("tp", "cp", "pp", "ep4", "ep8", "megatron", "deepspeed")):
        return "other parallelism than data"
    if any(word in words for word in ("fp8", "float8", "mx", "nvfp4", "lora", "offload")):
        return "low precision, adapters or offloading"
    if not row["seq_len"] or not row["local_batch"] or not row["gpus"]:
        return "sequence, batch or GPUs are not said"
    return "model code that is not here (" + row["source"] + ")"


def predict(program, model, arguments, folder=None):
    """The summary's memory, or the message of why there is none."""
    command = [program, "predict", model, *arguments.split(), "--json", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode > 1:
        return None, done.stderr.strip()
    return json.loads(done.stdout)["memory"], None


def make_row(source, job, arguments, step, phase, quantity, predicted, real):
    return dict(source=source, job=job, arguments=arguments, step=step, phase=phase, quantity=quantity,
                predicted_bytes=predicted, real_bytes=real,
                error_percent=f"{100 * (predicted - real) / real:.4f}" if real else "0.0000", left_out="")


def leave_out(source, job, arguments, reason):
    return dict.fromkeys(COLUMNS, "") | dict(source=source, job=job, arguments=arguments, left_out=reason)


def compare_phases(source, job, arguments, memory, recorded):
    """One row for each recorded phase and kind of bytes."""
    grouped = any("." in row["phase"] for row in recorded)
    phases = {}
    for phase in memory["phases"]:
        name = phase["phase"]
        if grouped and name in ("forward", "backward"):
            name += f".{phase['microbatch']}"
        phases[phase["step"] + 1 if phase["step"] is not None else 0, name] = phase
    for row in recorded:
        found = phases.get((int(row["step"]), row["phase"]))
        if row["phase"] in ("init", "oom") or found is None:
            continue
        for quantity in ("peak_allocated_bytes", "peak_reserved_bytes"):
            yield make_row(source, job, arguments, row["step"], row["phase"], quantity, found[quantity],
                           int(row[quantity]))


def read(path):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def steps_arguments(row):
    """The options of a job of steps.csv (tests/oracle/steps/README.md)."""
    words = {"default": "last-block-kept", "always": "true", "never": "false", "titan": "torchtitan",
             "hf": "transformers", "upcast": "composite"}
    checkpoint, _, late = row["checkpoint"].partition("_")
    options = ["--gpus", row["gpus"], "--seq", row["seq"], "--batch", row["batch"], "--accumulate", row["accumulate"],
               "--gradient-sync", "last", "--code", words[row["implementation"]], "--norm",
               words.get(row["norm"], row["norm"]), "--checkpoint", checkpoint, "--early-stop", "off" if late else "on",
               "--wrap", row["wrap"], "--reshard-after-forward", words.get(row["reshard"], row["reshard"]),
               "--param-dtype", row["param_dtype"], "--reduce-dtype", row["reduce_dtype"], "--optimizer",
               row["optimizer"], "--clip", "on" if row["clip"] == "1" else "off"]
    if row["shard_size"] != row["gpus"]:
        options += ["--strategy", "hybrid_shard", "--shard-size", row["shard_size"]]
    if row["model"].startswith("gpt2"):
        options += ["--dropout", "0.1"]
    if row["allocator"]:
        options += ["--allocator", row["allocator"]]
    unlimited = row["device_bytes"] == "4000000000000"
    return " ".join([*options, "--hbm", "unlimited" if unlimited else row["device_bytes"]])


def recorded_jobs():
    """(source, job, model, arguments, rows, folder, reason to leave it out)."""
    jobs = collections.OrderedDict()
    for row in read(ROOT / "tests/oracle/steps/steps.csv.gz"):
        jobs.setdefault((row["model"], row["setting"]), []).append(row)
    for (model, setting), rows in jobs.items():
        yield "steps", f"{model} {setting}", model, steps_arguments(rows[0]), rows, None, None
    for folder, name in (("jobs", "fsdp2.csv.gz"), ("jobs_fsdp1", "jobs.csv.gz")):
        jobs = collections.OrderedDict()
        for row in read(ROOT / "tests/oracle" / folder / name):
            jobs.setdefault((row["job"], row["events"]), []).append(row)
        for (job, events), rows in jobs.items():
            first = rows[0]
            arguments = first["arguments"]
            if first["job_file"]:
                arguments += " --job " + first["job_file"]
            reason = None
            if " fsdp1 " in arguments or first["job"] == "v58":
                reason = f"FSDP1: recorded on a device that is infinitely {'fast' if events == 'complete' else 'slow'}"
            yield "jobs", job, first["model"], arguments, rows, ROOT / "tests/oracle" / folder, reason


def write_recorded(program, writer, rows):
    for source, job, model, arguments, recorded, folder, reason in recorded_jobs():
        if reason is None:
            memory, reason = predict(program, model, arguments, folder)
        if reason is not None:
            writer.writerow(leave_out(source, job, arguments, reason))
            continue
        for row in compare_phases(source, job, arguments, memory, recorded):
            writer.writerow(row)
            rows.append(row)


def write_config(folder, row):
    """A Llama of the row's dimensions."""
    names = {"hidden_size": "hidden", "num_hidden_layers": "n_layers", "num_attention_heads": "heads",
             "num_key_value_heads": "kv_heads", "intermediate_size": "ffn", "vocab_size": "vocab"}
    config = {key: int(row[column]) for key, column in names.items()}
    config |= {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 8192, "rms_norm_eps": 1e-5}
    path = pathlib.Path(folder) / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


def published_bytes(memory, step, kind):
    if step == 0:
        return next(p[f"{kind}_bytes"] for p in memory["phases"] if p["phase"] == "init")
    steps = memory["steps"]
    return steps[step - 1 if step else -1][f"peak_{kind}_bytes"]


def write_published(program, writer, rows):
    for number, row in enumerate(read(HERE / "memory.csv.gz")):
        job = f"{number}: {row['source']}, {row['model']}"
        if number not in PUBLISHED:
            writer.writerow(leave_out("published", job, "", find_reason(number, row)))
            continue
        model, arguments, step = PUBLISHED[number]
        with tempfile.TemporaryDirectory() as folder:
            memory, reason = predict(program, model or write_config(folder, row), arguments + " --hbm unlimited")
        if reason is not None:
            writer.writerow(leave_out("published", job, arguments, reason))
            continue
        kind = row["mem_kind"] if row["mem_kind"] != "unknown" else "reserved"
        found = make_row("published", job, arguments, "" if step is None else step, "", f"peak_{kind}_bytes",
                         published_bytes(memory, step, kind), round(float(row["peak_mem_value"]) * UNITS[row["unit"]]))
        writer.writerow(found)
        rows.append(found)


def summarize(rows):
    """Median, 9 in 10, worst: absolute errors in per cent, by source and quantity."""
    groups = collections.OrderedDict()
    for row in rows:
        groups.setdefault((row["source"], row["quantity"]), []).append(row)
    for (source, quantity), members in groups.items():
        members.sort(key=lambda row: abs(float(row["error_percent"])))
        errors = [abs(float(row["error_percent"])) for row in members]
        exact = sum(row["predicted_bytes"] == row["real_bytes"] for row in members)
        worst = members[-1]
        print(f"{source:10s} {quantity:22s} {len(errors):5d} rows, {exact} equal; median {errors[len(errors) // 2]:.2f} %, "
              f"9 in 10 within {errors[(9 * len(errors) + 9) // 10 - 1]:.2f} %, worst {errors[-1]:.2f} % "
              f"({worst['job']} {worst['step']} {worst['phase']})", file=sys.stderr)


def main():
    program = sys.argv[1]
    rows = []
    with open(sys.argv[2], "w", encoding="utf-8", newline="") if len(sys.argv) > 2 else sys.stdout as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        write_recorded(program, writer, rows)
        write_published(program, writer, rows)
    summarize(rows)


if __name__ == "__main__":
    main()
