/* SPDX-License-Identifier: Apache-2.0
 *
 * An output that appears whole or not at all: bytes go to a temporary file beside the target,
 * commit renames it. A full disk, an error or a kill leaves the old file as it was. "-" is standard
 * output (buffered until commit), and so is an existing file that is not a regular one (/dev/null,
 * a pipe): it is written at commit and never replaced. A symbolic link is followed. A name that
 * ends in .gz is compressed (GZlibCompressor, no time stamp, so that output is reproducible).
 *
 * Write errors are remembered and reported by commit, so writers need not check.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct SimOutputFile SimOutputFile;

/* Opens. Errors IO (folder missing or not writable), with the file's name. */
SimOutputFile *sim_output_file_new(const char *path, GError **error);

void sim_output_file_write(SimOutputFile *file, const char *bytes, size_t length);
void sim_output_file_puts(SimOutputFile *file, const char *text);
/* Without %f, %e or %g: those depend on the locale (see sim_units_print_*). */
void sim_output_file_printf(SimOutputFile *file, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Flushes, syncs and renames. Errors IO; then the target is untouched and the temporary file gone.
 */
bool sim_output_file_commit(SimOutputFile *file, GError **error);

/* Commits all of FILES (NULLs are left out) or none: everything is written before the first is
 * renamed, standard output and devices after all files. Errors IO; only a rename that fails after
 * others leaves some in place. */
bool sim_output_file_commit_all(SimOutputFile *const *files, size_t count, GError **error);

/* Frees; without a commit before, drops what was written. */
void sim_output_file_free(SimOutputFile *file);
G_DEFINE_AUTOPTR_CLEANUP_FUNC(SimOutputFile, sim_output_file_free)
