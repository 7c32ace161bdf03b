/* SPDX-License-Identifier: Apache-2.0 */
#include "base/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define BUFFER_BYTES ((size_t)1 << 18)

struct SimOutputFile {
    char *path;             /* as given, for messages */
    char *target;           /* links resolved; NULL: write to fd (or stdout) only at commit */
    char *temporary;        /* beside the target; NULL once renamed, or without a target */
    int fd;                 /* -1: standard output */
    GConverter *compressor; /* NULL: plain */
    GString *buffer;        /* not yet written, before compression */
    GError *failure;        /* the first one */
    bool is_written;        /* nothing is left to write */
};

static void fail(SimOutputFile *file, const char *reason)
{
    if (file->failure == NULL)
        g_set_error(&file->failure, SIM_ERROR, SIM_ERROR_IO, "%s: cannot be written: %s",
                    file->path, reason);
}

/* Opens the temporary file, with the mode of the one it will replace. */
static void open_temporary(SimOutputFile *file, const struct stat *replaced)
{
    g_autofree char *folder = g_path_get_dirname(file->target);
    g_autofree char *name = g_build_filename(folder, ".fsdpsim-XXXXXX", NULL);
    /* Mode 0666 less the umask, as for a file opened in the plain way. */
    file->fd = g_mkstemp_full(name, O_WRONLY | O_CLOEXEC, 0666);
    if (file->fd < 0) {
        fail(file, g_strerror(errno));
        return;
    }
    file->temporary = g_steal_pointer(&name);
    if (replaced != NULL && fchmod(file->fd, replaced->st_mode & 0777) != 0)
        fail(file, g_strerror(errno));
}

static void open_output(SimOutputFile *file)
{
    struct stat status;
    bool exists = stat(file->path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) {
        fail(file, "it is a folder");
    } else if (exists && !S_ISREG(status.st_mode)) {
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC);
        if (file->fd < 0)
            fail(file, g_strerror(errno));
    } else {
        /* realpath's result belongs to malloc, not to GLib. */
        char *resolved = exists ? realpath(file->path, NULL) : NULL;
        file->target = g_strdup(resolved != NULL ? resolved : file->path);
        free(resolved);
        if (exists && access(file->target, W_OK) != 0)
            fail(file, g_strerror(errno));
        else
            open_temporary(file, exists ? &status : NULL);
    }
}

SimOutputFile *sim_output_file_new(const char *path, GError **error)
{
    g_autoptr(SimOutputFile) file = g_new0(SimOutputFile, 1);
    file->path = g_strdup(path);
    file->fd = -1;
    file->buffer = g_string_sized_new(4096);
    if (strcmp(path, "-") != 0)
        open_output(file);
    if (file->failure != NULL) {
        g_propagate_error(error, g_steal_pointer(&file->failure));
        return NULL;
    }
    if (g_str_has_suffix(path, ".gz"))
        file->compressor = G_CONVERTER(g_zlib_compressor_new(G_ZLIB_COMPRESSOR_FORMAT_GZIP, -1));
    return g_steal_pointer(&file);
}

static void write_bytes(SimOutputFile *file, const char *bytes, size_t length)
{
    if (file->fd < 0) {
        if (fwrite(bytes, 1, length, stdout) != length || fflush(stdout) != 0)
            fail(file, g_strerror(errno));
        return;
    }
    while (length > 0 && file->failure == NULL) {
        ssize_t written = write(file->fd, bytes, length);
        if (written >= 0) {
            bytes += written;
            length -= (size_t)written;
        } else if (errno != EINTR) {
            fail(file, g_strerror(errno));
        }
    }
}

static void compress_bytes(SimOutputFile *file, const char *bytes, size_t length, bool last)
{
    GConverterFlags flags = last ? G_CONVERTER_INPUT_AT_END : G_CONVERTER_NO_FLAGS;
    char out[16384];
    GConverterResult result = G_CONVERTER_CONVERTED;
    while ((length > 0 || last) && result == G_CONVERTER_CONVERTED && file->failure == NULL) {
        g_autoptr(GError) cause = NULL;
        size_t taken = 0;
        size_t given = 0;
        result = g_converter_convert(file->compressor, bytes, length, out, sizeof out, flags,
                                     &taken, &given, &cause);
        if (result == G_CONVERTER_ERROR) {
            fail(file, cause->message);
            return;
        }
        bytes += taken;
        length -= taken;
        write_bytes(file, out, given);
    }
}

static void flush(SimOutputFile *file, bool last)
{
    if (file->failure == NULL) {
        if (file->compressor != NULL)
            compress_bytes(file, file->buffer->str, file->buffer->len, last);
        else
            write_bytes(file, file->buffer->str, file->buffer->len);
    }
    g_string_truncate(file->buffer, 0);
}

static void flush_if_full(SimOutputFile *file)
{
    if (file->buffer->len >= BUFFER_BYTES && file->target != NULL)
        flush(file, false);
}

void sim_output_file_write(SimOutputFile *file, const char *bytes, size_t length)
{
    g_string_append_len(file->buffer, bytes, (gssize)length);
    flush_if_full(file);
}

void sim_output_file_puts(SimOutputFile *file, const char *text)
{
    sim_output_file_write(file, text, strlen(text));
}

void sim_output_file_printf(SimOutputFile *file, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_string_append_vprintf(file->buffer, format, arguments);
    va_end(arguments);
    flush_if_full(file);
}

static void write_out(SimOutputFile *file)
{
    if (file->is_written)
        return;
    file->is_written = true;
    flush(file, true);
    if (file->failure == NULL && file->temporary != NULL && fsync(file->fd) != 0)
        fail(file, g_strerror(errno));
}

bool sim_output_file_commit(SimOutputFile *file, GError **error)
{
    write_out(file);
    if (file->fd >= 0 && close(file->fd) != 0)
        fail(file, g_strerror(errno));
    file->fd = -1;
    if (file->failure == NULL && file->temporary != NULL) {
        if (g_rename(file->temporary, file->target) == 0)
            g_clear_pointer(&file->temporary, g_free);
        else
            fail(file, g_strerror(errno));
    }
    if (file->temporary != NULL) {
        g_unlink(file->temporary);
        g_clear_pointer(&file->temporary, g_free);
    }
    if (file->failure == NULL)
        return true;
    g_propagate_error(error, g_steal_pointer(&file->failure));
    return false;
}

static bool write_out_all(SimOutputFile *const *files, size_t count, bool replaces, GError **error)
{
    for (size_t i = 0; i < count; i++) {
        if (files[i] == NULL || (files[i]->target != NULL) != replaces)
            continue;
        write_out(files[i]);
        if (files[i]->failure != NULL) {
            g_propagate_error(error, g_steal_pointer(&files[i]->failure));
            return false;
        }
    }
    return true;
}

bool sim_output_file_commit_all(SimOutputFile *const *files, size_t count, GError **error)
{
    if (!write_out_all(files, count, true, error) || !write_out_all(files, count, false, error))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (files[i] != NULL && !sim_output_file_commit(files[i], error))
            return false;
    }
    return true;
}

void sim_output_file_free(SimOutputFile *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->temporary != NULL)
        g_unlink(file->temporary);
    g_free(file->temporary);
    g_free(file->target);
    g_free(file->path);
    g_clear_object(&file->compressor);
    g_string_free(file->buffer, TRUE);
    g_clear_error(&file->failure);
    g_free(file);
}
