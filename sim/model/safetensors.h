/* SPDX-License-Identifier: Apache-2.0
 *
 * What a folder of weights says about itself: name, type and shape of each tensor, from the headers
 * of its *.safetensors files (or of those that model.safetensors.index.json names). Weights are not
 * read and need not be there: a file may end after its header.
 *
 * A file is 8 bytes N, little-endian, N bytes of JSON {"name": {"dtype", "shape", "data_offsets"}},
 * and the data (huggingface/safetensors, README "Format").
 */
#pragma once

#include "model/model.h"

typedef struct SimSafetensor {
    char *name;
    char *file; /* base name */
    SimShape shape;
    uint64_t elements;
    uint32_t element_bytes;
} SimSafetensor;

typedef struct SimSafetensors {
    char *folder;
    GArray *tensors;   /* of SimSafetensor, by name */
    GHashTable *index; /* name -> index + 1 */
} SimSafetensors;

/* NULL without an error: FOLDER has no such file. Errors IO (a file that the index names does not
 * exist or cannot be read), PARSE, SCHEMA, RANGE, MISMATCH, each naming file and tensor. O(tensors
 * log tensors). */
SimSafetensors *sim_safetensors_load(const char *folder, GError **error);
void sim_safetensors_free(SimSafetensors *tensors);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimSafetensors, sim_safetensors_free)

/* The tensor of that name, or NULL. */
const SimSafetensor *sim_safetensors_find(const SimSafetensors *tensors, const char *name);

/* Whether MODEL, in the names of transformers, has the shapes of TENSORS. Names as checkpoints have
 * them: with or without the base model's prefix, Mixtral's block_sparse_moe, GPT-NeoX's embed_out;
 * experts' matrices one by one count together. Error MISMATCH: the first parameter that is missing
 * or of another shape. */
bool sim_safetensors_check(const SimSafetensors *tensors, const SimModel *model, GError **error);
