/* SPDX-License-Identifier: Apache-2.0
 *
 * An input read whole. A name that ends in .gz is decompressed (GZlibDecompressor; all its
 * members).
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>

/* The content, with a zero byte behind it that LENGTH does not count. Errors IO: cannot be opened
 * or read, a folder, corrupt gzip, more than LIMIT bytes after decompression (at most 2 GiB). Owned
 * by the caller. */
char *sim_input_file_load(const char *file, size_t limit, size_t *length, GError **error);

/* The same content, refused with a PARSE error "FILE:LINE:COLUMN: ..." unless it is UTF-8 without
 * zero bytes. A byte order mark at its start is left out. Owned by the caller. */
char *sim_input_file_load_text(const char *file, size_t limit, size_t *length, GError **error);

/* True if TEXT is UTF-8 without zero bytes, else PARSE; ORIGIN names it in the message. */
bool sim_input_file_check_text(const char *text, size_t length, const char *origin, GError **error);

/* Line and column, both from 1, the column in bytes, of the byte at OFFSET. O(OFFSET). */
void sim_input_file_locate(const char *text, size_t offset, unsigned *line, unsigned *column);
