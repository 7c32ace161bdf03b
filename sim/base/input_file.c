/* SPDX-License-Identifier: Apache-2.0 */
#include "base/input_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gio/gio.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define CHUNK 65536

static bool fail_read(const char *file, const char *reason, GError **error)
{
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot be read: %s", file, reason);
    return false;
}

static bool fail_limit(const char *file, size_t limit, GError **error)
{
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO,
                "%s: expected at most %" G_GSIZE_FORMAT " MiB, found more", file, limit >> 20);
    return false;
}

/* Reads FD to its end, one byte more than LIMIT at most. */
static bool read_all(int fd, const char *file, size_t limit, GByteArray *bytes, GError **error)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return fail_read(file, g_strerror(errno), error);
    if (S_ISDIR(status.st_mode))
        return fail_read(file, "it is a folder", error);
    if (S_ISREG(status.st_mode) && (uint64_t)status.st_size > limit)
        return fail_limit(file, limit, error);

    size_t step = S_ISREG(status.st_mode) ? (size_t)status.st_size + 1 : CHUNK;
    size_t length = 0;
    for (;;) {
        g_byte_array_set_size(bytes, (guint)(length + step));
        ssize_t got = read(fd, bytes->data + length, step);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_read(file, g_strerror(errno), error);
        length += (size_t)got;
        if (length > limit)
            return fail_limit(file, limit, error);
        if (got == 0)
            break;
        step = CHUNK;
    }
    g_byte_array_set_size(bytes, (guint)length);
    return true;
}

/* Decompresses all members of BYTES into a new array; NULL with ERROR set if they are corrupt. */
static GByteArray *decompress(const GByteArray *bytes, const char *file, size_t limit,
                              GError **error)
{
    g_autoptr(GZlibDecompressor) zlib = g_zlib_decompressor_new(G_ZLIB_COMPRESSOR_FORMAT_GZIP);
    g_autoptr(GByteArray) text = g_byte_array_new();
    size_t position = 0;
    size_t length = 0;
    bool finished = false;
    while (position < bytes->len || !finished) {
        g_autoptr(GError) cause = NULL;
        size_t taken = 0;
        size_t given = 0;
        g_byte_array_set_size(text, (guint)(length + CHUNK));
        GConverterResult result = g_converter_convert(
            G_CONVERTER(zlib), bytes->data + position, bytes->len - position, text->data + length,
            CHUNK, G_CONVERTER_INPUT_AT_END, &taken, &given, &cause);
        if (result == G_CONVERTER_ERROR) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot be decompressed: %s", file,
                        cause->message);
            return NULL;
        }
        position += taken;
        length += given;
        if (length > limit) {
            fail_limit(file, limit, error);
            return NULL;
        }
        finished = result == G_CONVERTER_FINISHED;
        if (finished)
            g_converter_reset(G_CONVERTER(zlib));
    }
    g_byte_array_set_size(text, (guint)length);
    return g_steal_pointer(&text);
}

char *sim_input_file_load(const char *file, size_t limit, size_t *length, GError **error)
{
    /* GByteArray counts in 32 bits and grows by doubling. */
    limit = MIN(limit, (size_t)1 << 31);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        fail_read(file, g_strerror(errno), error);
        return NULL;
    }
    g_autoptr(GByteArray) bytes = g_byte_array_new();
    bool read = read_all(fd, file, limit, bytes, error);
    close(fd);
    if (!read)
        return NULL;

    if (g_str_has_suffix(file, ".gz")) {
        GByteArray *text = decompress(bytes, file, limit, error);
        if (text == NULL)
            return NULL;
        g_byte_array_unref(bytes);
        bytes = text;
    }
    *length = bytes->len;
    g_byte_array_append(bytes, (const guint8 *)"", 1);
    return (char *)g_byte_array_free(g_steal_pointer(&bytes), FALSE);
}

char *sim_input_file_load_text(const char *file, size_t limit, size_t *length, GError **error)
{
    g_autofree char *text = sim_input_file_load(file, limit, length, error);
    if (text == NULL || !sim_input_file_check_text(text, *length, file, error))
        return NULL;
    static const char mark[] = "\xef\xbb\xbf";
    if (g_str_has_prefix(text, mark)) {
        *length -= strlen(mark);
        memmove(text, text + strlen(mark), *length + 1);
    }
    return g_steal_pointer(&text);
}

bool sim_input_file_check_text(const char *text, size_t length, const char *origin, GError **error)
{
    const char *end;
    if (g_utf8_validate_len(text, length, &end))
        return true;
    unsigned line;
    unsigned column;
    sim_input_file_locate(text, (size_t)(end - text), &line, &column);
    g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE,
                "%s:%u:%u: expected UTF-8 text, found byte 0x%02x", origin, line, column,
                (unsigned)(unsigned char)*end);
    return false;
}

void sim_input_file_locate(const char *text, size_t offset, unsigned *line, unsigned *column)
{
    *line = 1;
    size_t start = 0;
    for (size_t i = 0; i < offset; i++) {
        if (text[i] == '\n') {
            *line += 1;
            start = i + 1;
        }
    }
    *column = (unsigned)(offset - start) + 1;
}
