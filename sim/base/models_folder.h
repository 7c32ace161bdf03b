/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the models that ship (nets, gpus, clusters, comm) lie: $FSDPSIM_MODELS if it is set, else
 * PREFIX/share/fsdpsim/models beside the running program's PREFIX/bin, else the folder the program
 * was installed to, else models/ of the source tree it was built from.
 */
#pragma once

/* The first of these that is a folder; $FSDPSIM_MODELS as it stands, even if it is not, so that a
 * message names it. NULL if there is none. Owned by the caller. */
char *sim_models_folder_find(void);
