#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A plan with something taken away must fail: waits, gradients, shards. Two ranks, four blocks."""

import copy
import os
import sys
import tempfile

from real_run import Plan, execute, predict

BOUND = 1e-5


def awaited_row(body, index):
    """Of the stream that the wait at INDEX waits for: the last work before it (or before the
    event's record) that touches what the waiting stream touches next, else the last work."""
    wait = body[index]
    if wait["event"].startswith("stream:"):
        stream, end = wait["event"][len("stream:"):], index
    else:
        end = max(i for i in range(index)
                  if body[i]["op"] == "record" and body[i]["event"] == wait["event"])
        stream = body[end]["stream"]
    follower = next((row for row in body[index:] if row["stream"] == wait["stream"]
                     and row["op"] in ("kernel", "collective")), None)
    names = set()
    for cell in (follower["reads"], follower["writes"]) if follower else ():
        names |= {item.split("[")[0] for item in cell.split()}
    work = [i for i in range(end) if body[i]["stream"] == stream
            and body[i]["op"] in ("kernel", "collective")]
    related = [i for i in work if names & {item.split("[")[0] for item in
                                           body[i]["writes"].split() + body[i]["reads"].split()}]
    return (related or work)[-1]


# Waiting stream, event, and a phase: the wait protects data in this plan, so without it a late
# stream is a fault. The number says which such wait of the phase is taken away.
WAITS = [
    ("all_gather_copy_in", "stream:compute", "forward", 0),
    ("all_gather", "stream:all_gather_copy_in", "forward", 0),
    ("all_gather", "stream:all_gather_copy_in", "backward", 0),
    ("compute", "ag:", "forward", 0),
    ("compute", "ag:", "forward", 2),
    ("compute", "ag:", "backward", 0),
    ("all_gather_copy_in", "co:", "forward", 1),
    ("all_gather_copy_in", "co:", "backward", 0),
    ("reduce_scatter", "stream:compute", "backward", 0),
    ("reduce_scatter", "stream:compute", "backward", 2),
    ("compute", "rs:", "backward", 0),
    ("compute", "rs:", "backward", 1),
]


def remove_waits(plan, folder, values):
    failures = []
    for stream, event, phase, number in WAITS:
        found = [i for i, row in enumerate(plan.body)
                 if row["op"] == "wait" and row["stream"] == stream and row["phase"] == phase
                 and row["event"].startswith(event)]
        index = found[number]
        path = os.path.join(folder, "wait.csv")
        plan.save(path, plan.body[:index] + plan.body[index + 1:])
        late = awaited_row(plan.body, index)
        code, report, errors = execute(path, 2, "--against", values, "--delay",
                                       f"{late + 1}:500ms")
        if code != 1 or report is None or not report["faults"]:
            failures.append(f"without {stream} waiting for {plan.body[index]['event']} (row "
                            f"{index + 1}), row {late + 1} late: expected a fault, found exit "
                            f"{code} {errors[:200]}")
    return failures


def drop_reduce_scatter(plan):
    """This rank's own part takes the place of the sum."""
    body = copy.deepcopy(plan.body)
    row = body[plan.find(op="collective", collective="reduce_scatter")]
    name, size = row["reads"], int(row["bytes"]) // 2
    row.update(op="kernel", operator="clone", collective="", group="", bytes="",
               reads=f"{name}[R*{size}:{size}]")
    return body


def divide_twice(plan):
    body = copy.deepcopy(plan.body)
    index = plan.find(op="collective", collective="reduce_scatter")
    divide = dict(body[index], op="kernel", name="divide", operator="divide", collective="",
                  group="", bytes="", arguments="factor=2", reads=body[index]["writes"])
    body.insert(index + 1, divide)
    return body


def gather_stale_shard(plan):
    """The backward's copy-in of a block is left out: what the memory held before is gathered."""
    body = copy.deepcopy(plan.body)
    index = plan.find(op="kernel", operator="copy_in", phase="backward")
    del body[index]
    return body


def scale_shard(plan):
    """A shard that is not what the optimizer left: gathered before its last change."""
    body = copy.deepcopy(plan.body)
    index = plan.find(op="kernel", operator="copy_in", phase="backward")
    shard = body[index]["reads"].split()[0]
    change = dict(body[index], name="divide", operator="divide", bytes="", arguments="factor=1.01",
                  reads=shard, writes=shard)
    body.insert(index, change)
    return body


def break_numbers(plan, folder, values):
    failures = []
    for change in (drop_reduce_scatter, divide_twice, gather_stale_shard, scale_shard):
        path = os.path.join(folder, "numbers.csv")
        plan.save(path, change(plan))
        code, report, errors = execute(path, 2, "--against", values)
        if report is None:
            failures.append(f"{change.__name__}: the run failed: {errors[:300]}")
        elif not report["faults"] and report["difference"]["first_gradient"] <= BOUND:
            failures.append(f"{change.__name__}: expected another gradient, found exit {code}, "
                            f"{report['difference']['first_gradient']}")
    return failures


def free_before(plan, index, buffer):
    free = dict.fromkeys(plan.columns, "")
    free.update(op="free", phase=plan.body[index]["phase"], step="0", buffer=buffer)
    return plan.body[:index] + [free] + plan.body[index:]


def free_shard(plan, folder):
    """A plan that frees the shard along with the rest: the copy-in of the backward's all-gather is
    named, with the shard; where the shard itself is what is sent, the all-gather."""
    failures = []
    path = os.path.join(folder, "shard.csv")
    copy_in = plan.find(op="kernel", operator="copy_in", phase="backward")
    shard = plan.body[copy_in]["reads"].split()[0]
    forward = plan.find(op="kernel", operator="copy_in", reads=shard)
    end = plan.find(forward, op="free", phase="forward", buffer="U:")
    plan.save(path, free_before(plan, end, shard))
    direct = copy.deepcopy(plan)
    first = direct.find(op="kernel", operator="copy_in")
    send = direct.find(op="collective", collective="all_gather")
    sent = direct.body[first]["reads"]
    direct.body[send]["reads"] = sent
    del direct.body[first]
    direct_path = os.path.join(folder, "direct.csv")
    direct.save(direct_path, free_before(direct, send - 1, sent))
    # A row's line: the header and the rows of meta and group come before it, the free too.
    for file, name, row in ((path, shard, copy_in + 1), (direct_path, sent, send)):
        line = row + len(plan.head) + 2
        code, _, errors = execute(file, 2)
        if code != 3 or name not in errors or f":{line}:" not in errors:
            failures.append(f"freed shard: expected exit 3, line {line} and {name}, found {code}: "
                            f"{errors[:300]}")
    # Whole, it may be sent.
    direct.save(direct_path, direct.body)
    code, report, errors = execute(direct_path, 2)
    if code != 0 or report["faults"]:
        failures.append(f"sent from the shard: found exit {code}: {errors[:300]}")
    return failures


def main():
    with tempfile.TemporaryDirectory() as folder:
        alone = predict(folder, "alone.csv", "--gpus", "1", "--batch", "2")
        values = os.path.join(folder, "alone.values")
        assert execute(alone, 1, "--save", values)[0] == 0
        plan = Plan(predict(folder, "plan.csv", "--gpus", "2"))
        path = os.path.join(folder, "whole.csv")
        plan.save(path, plan.body)
        code, report, errors = execute(path, 2, "--against", values)
        failures = []
        if code != 0 or report["difference"]["first_gradient"] > BOUND:
            failures.append(f"the whole plan: exit {code} {errors[:300]}")
        failures += remove_waits(plan, folder, values)
        failures += break_numbers(plan, folder, values)
        failures += free_shard(plan, folder)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
