/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary as JSON, schema fsdpsim.summary/1: fields and order are documented in
 * traces/README.md and never change within a version of the schema. Times are seconds.
 */
#pragma once

#include "base/output_file.h"
#include "predict/summary.h"

void sim_summary_json_save(const SimSummary *summary, SimOutputFile *file);
