/* SPDX-License-Identifier: Apache-2.0
 *
 * Which modules become units: lists of units without their reshard setting. The root is not among
 * them.
 */
#pragma once

#include "model/model.h"

#include <glib.h>
#include <stdbool.h>

/* Appends MODULES (N of them) to UNITS, of SimJobUnit, as one unit named by their paths. */
void sim_job_wrap_add(GArray *units, const SimModel *model, const uint32_t *modules, size_t n);

/* --wrap FILE: the modules that its lines name, in the file's order. Blank lines and `""` (the
 * root, which is always a unit) are skipped. Errors IO; SCHEMA with file and line: no such module
 * (nearest named), a module twice, a container that is never called and so could never gather. */
bool sim_job_wrap_read_file(GArray *units, const SimModel *model, const char *file, GError **error);

/* --wrap size:N, as size_based_auto_wrap_policy of torch/distributed/fsdp/wrap.py: bottom-up, a
 * module is a unit if its parameters outside of units below are at least N; containers that are
 * never called are not, nor is a module that shares a parameter with the rest of the model (the
 * policy would make a job that fully_shard refuses). */
void sim_job_wrap_by_size(GArray *units, const SimModel *model, uint64_t parameters);

/* True if PATH is what PATTERN names: "*" stands for one path component. */
bool sim_job_wrap_matches(const char *pattern, const char *path);
