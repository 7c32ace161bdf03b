/* SPDX-License-Identifier: Apache-2.0
 *
 * A model that no config.json describes, as its module tree (schema fsdpsim.modules/1): paths,
 * parameters, and what forward calls. models/write_modules.py writes one from any nn.Module.
 *
 *   {"schema": "fsdpsim.modules/1", "name": "mine", "inputs": ["tokens"], "loss": "cross_entropy",
 *    "modules": [
 *      {"path": "", "inputs": ["tokens"], "outputs": ["y"],
 *       "calls": [{"module": "embedding", "inputs": ["tokens"], "outputs": ["x"]},
 *                 {"module": "ffn", "inputs": ["x"], "outputs": ["y"], "delete": ["x"]}]},
 *      {"path": "ffn", "parameters": [{"name": "w1.weight", "shape": [64, 16]}],
 *       "inputs": ["x"], "outputs": ["h"],
 *       "calls": [{"operator": "linear", "inputs": ["x", "w1.weight"], "outputs": ["h"]}]}, ...]}
 *
 * Modules stand in the order of named_modules; the root, path "", may be left out where it has no
 * parameters and no calls, and so may containers. Names in a call are the module's variables, its
 * parameters, then the file's "buffers". A variable lives until its forward returns; "delete" lists
 * those whose last reference goes with that call, in that order: unnamed values of an expression,
 * variables bound anew.
 *
 * "inputs": one, either a name (token ids, batch x sequence) or {"name", "shape", "dtype"}; a
 * dimension is a number, "batch" or "sequence". "loss": "cross_entropy" (the result are logits),
 * "sum", "mean", or "none" (the result is the loss). "buffers": [{"name", "shape", "dtype"}].
 * "tied": [["a.weight", "b.weight"]]. `--wrap block` wraps the modules whose name is a number, but
 * not those inside of another such.
 *
 * A module that is called but has no "calls" is known by its parameters and "output_shapes" alone:
 * its members run one by one, their parameters are read once in forward and once in backward, and
 * what its inside keeps for backward is not known (SimModel.without_calls).
 */
#pragma once

#include "base/json.h"
#include "model/model.h"

/* True if JSON says that it is such a file. */
bool sim_modules_json_is_tree(const cJSON *json);

/* JSON of FILE (a name for messages). BATCH and SEQUENCE are the job's: shapes are checked with
 * them. Errors SCHEMA, RANGE, UNSUPPORTED, with the path in the file. Owned by the caller. */
SimModel *sim_modules_json_read(const cJSON *json, const char *file, uint64_t batch,
                                uint64_t sequence, GError **error);
