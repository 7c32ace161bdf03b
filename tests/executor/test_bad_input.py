#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plans and ranks that do not fit end by themselves, with a message that says what and where."""

import copy
import os
import signal
import subprocess
import sys
import tempfile
import time

from real_run import ENVIRONMENT, EXECUTOR, Plan, execute, predict


def expect(failures, what, found, code, *words):
    """FOUND: exit code, JSON, standard error."""
    missing = [word for word in words if word not in found[2]]
    if found[0] != code or missing:
        failures.append(f"{what}: expected exit {code} and {missing}, found {found[0]}: "
                        f"{found[2][:500]}")


def change(plan, folder, index, **cells):
    body = copy.deepcopy(plan.body)
    body[index].update(cells)
    path = os.path.join(folder, "changed.csv")
    plan.save(path, body)
    return path


def check_plans(plan, folder, failures):
    linear = plan.find(op="kernel", operator="linear")
    path = change(plan, folder, linear, operator="linaer")
    expect(failures, "unknown operator", execute(path, 2), 3, f"row {linear + 1}", "'linaer'",
           "did you mean 'linear'")
    arguments = plan.body[linear]["arguments"].replace("in=1x16x256", "in=1x16x128")
    path = change(plan, folder, linear, arguments=arguments)
    expect(failures, "wrong shape", execute(path, 2), 1, f"row {linear + 1}", "linear: expected")
    path = change(plan, folder, 0)
    expect(failures, "another number of ranks", execute(path, 3), 3, "for 2 ranks", "started 3")
    # Rank 1 thinks that it gathers half as much.
    gather = plan.find(op="collective", collective="all_gather")
    body = copy.deepcopy(plan.body)
    body[gather]["rank"] = "0"
    other = dict(body[gather], rank="1", bytes=str(int(body[gather]["bytes"]) // 2))
    body.insert(gather + 1, other)
    path = os.path.join(folder, "disagree.csv")
    plan.save(path, body)
    found = execute(path, 2)
    expect(failures, "ranks that disagree", (1 if found[0] != 0 else 0, None, found[2]), 1,
           "ranks disagree", f"row {gather + 1}", f"row {gather + 2}")
    # Rank 1 never comes.
    body = copy.deepcopy(plan.body)
    body[gather]["rank"] = "0"
    plan.save(path, body)
    found = execute(path, 2, "--limit", "5s")
    expect(failures, "a rank that never comes", (1 if found[0] != 0 else 0, None, found[2]), 1)


def children(pid):
    """Processes below PID, deepest first."""
    listing = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True,
                             text=True).stdout.split()
    return [found for child in listing for found in children(int(child)) + [int(child)]]


def check_killed(plan, folder, failures):
    """The first work is late, so that there is a middle to be killed in."""
    path = os.path.join(folder, "whole.csv")
    plan.save(path, plan.body)
    late = plan.find(op="kernel", operator="copy_in") + 1
    with subprocess.Popen(["mpirun", "-np", "2", "--oversubscribe", EXECUTOR, path, "--delay",
                           f"{late}:30s"], env=ENVIRONMENT, stderr=subprocess.PIPE,
                          text=True) as run:
        ranks = []
        for _ in range(200):
            ranks = children(run.pid)
            if len(ranks) >= 2:
                break
            time.sleep(0.05)
        time.sleep(1)
        os.kill(ranks[-1], signal.SIGKILL)
        try:
            _, errors = run.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            run.kill()
            failures.append("a killed rank: the others went on")
            return
        if run.returncode == 0 or "signal" not in errors:
            failures.append(f"a killed rank: found exit {run.returncode}: {errors[:300]}")


def main():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(predict(folder, "plan.csv", "--gpus", "2"))
        check_plans(plan, folder, failures)
        check_killed(plan, folder, failures)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
