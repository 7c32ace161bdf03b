/* SPDX-License-Identifier: Apache-2.0
 *
 * The run as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open, in the
 * conventions of PyTorch's profiler (Kineto, libkineto/src/output_json.cpp), so that tools made for
 * profiles read it (facebookresearch/HolisticTraceAnalysis).
 *
 *   process   a rank
 *   thread    1 "steps" (ProfilerStep#N, phases), 2 the host (launches, waits), 7 + i: stream i, as
 *             PyTorch's streams begin at 7
 *   X         cat kernel, gpu_memcpy: one row of the timeline each; cuda_runtime: the host's part;
 *             user_annotation: steps and phases
 *   s, f      cat ac2g: launch -> item; cat event: the item behind an event -> the one that waited
 *   C         "memory": allocated, active, reserved bytes
 *
 * Times are microseconds with three decimals, cut to nanoseconds as in the timeline CSV. A
 * collective begins when this rank is ready for it; args.waiting_us is how long for others.
 * Written event by event: memory does not grow with the trace.
 */
#pragma once

#include "base/output_file.h"
#include "trace/recorder.h"

/* The tracks may be in any order of spans. O(rows + spans + memory events) a track. */
void sim_chrome_trace_save(const SimRecorder *recorder, SimOutputFile *file);
