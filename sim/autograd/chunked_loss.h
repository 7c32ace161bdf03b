/* SPDX-License-Identifier: Apache-2.0
 *
 * torchtitan's chunked loss (components/loss.py, ChunkedLossWrapper): the model's forward ends
 * before the head; then, for one chunk of tokens after the other, the head, the loss in f32 and
 * their backward run inside the forward pass, so that the logits of one chunk (and for a moment
 * two) exist at a time. The hidden states' gradient is collected in f32, cast when all chunks are
 * done, and handed to the decoder when the training loop calls backward().
 *
 * The head's FSDP module stays gathered meanwhile and reduces its gradient once, with the last
 * chunk; whoever has that module is told (SimAutogradHooks.chunked_loss).
 */
#pragma once

#include "autograd/autograd_private.h"

/* The loss of HIDDEN [B, S, H], the result of the headless forward, in graph GRAPH. Borrows HIDDEN;
 * one reference is the caller's. */
SimTensor *sim_chunked_loss_run(SimAutograd *autograd, SimGraph *graph, SimTensor *hidden);
