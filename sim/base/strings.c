/* SPDX-License-Identifier: Apache-2.0 */
#include "base/strings.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FIRST_SLOTS 256   /* a power of two */
#define CHUNK_BYTES 16384 /* texts are stored in blocks of this size, which never move */

typedef struct Slot {
    uint32_t hash;
    SimStringId id; /* 0: the slot is free (the empty string is never looked up here) */
} Slot;

struct SimStrings {
    GStringChunk *chunk;
    GPtrArray *texts; /* by id */
    Slot *slots;      /* open addressing with linear probing, at most half full */
    size_t slot_count;
};

/* FNV-1a, 64 bits folded to 32. */
static uint32_t compute_hash(const char *text, size_t length)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return (uint32_t)(hash ^ (hash >> 32));
}

SimStrings *sim_strings_new(void)
{
    SimStrings *strings = g_new0(SimStrings, 1);
    strings->chunk = g_string_chunk_new(CHUNK_BYTES);
    strings->texts = g_ptr_array_new();
    g_ptr_array_add(strings->texts, g_string_chunk_insert_len(strings->chunk, "", 0));
    strings->slot_count = FIRST_SLOTS;
    strings->slots = g_new0(Slot, strings->slot_count);
    return strings;
}

void sim_strings_free(SimStrings *strings)
{
    if (strings == NULL)
        return;
    g_string_chunk_free(strings->chunk);
    g_ptr_array_unref(strings->texts);
    g_free(strings->slots);
    g_free(strings);
}

/* The slot that holds TEXT, or the free one where it belongs. */
static Slot *find_slot(const SimStrings *strings, const char *text, uint32_t hash)
{
    size_t mask = strings->slot_count - 1;
    for (size_t i = hash & mask;; i = (i + 1) & mask) {
        Slot *slot = &strings->slots[i];
        if (slot->id == 0)
            return slot;
        if (slot->hash == hash && strcmp(strings->texts->pdata[slot->id], text) == 0)
            return slot;
    }
}

static void grow(SimStrings *strings)
{
    g_autofree Slot *old = strings->slots;
    size_t old_count = strings->slot_count;
    strings->slot_count = old_count * 2;
    strings->slots = g_new0(Slot, strings->slot_count);
    size_t mask = strings->slot_count - 1;
    for (size_t i = 0; i < old_count; i++) {
        if (old[i].id == 0)
            continue;
        size_t place = old[i].hash & mask;
        while (strings->slots[place].id != 0)
            place = (place + 1) & mask;
        strings->slots[place] = old[i];
    }
}

SimStringId sim_strings_intern(SimStrings *strings, const char *text)
{
    if (text == NULL || *text == '\0')
        return 0;
    size_t length = strlen(text);
    uint32_t hash = compute_hash(text, length);
    Slot *slot = find_slot(strings, text, hash);
    if (slot->id != 0)
        return slot->id;

    g_assert(strings->texts->len < UINT32_MAX);
    SimStringId id = strings->texts->len;
    *slot = (Slot){.hash = hash, .id = id};
    g_ptr_array_add(strings->texts,
                    g_string_chunk_insert_len(strings->chunk, text, (gssize)length));
    if ((size_t)id * 2 >= strings->slot_count)
        grow(strings);
    return id;
}

SimStringId sim_strings_internf(SimStrings *strings, const char *format, ...)
{
    char near[256];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(near, sizeof near, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < sizeof near)
        return sim_strings_intern(strings, near);

    va_start(arguments, format);
    g_autofree char *far = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    return sim_strings_intern(strings, far);
}

SimStringId sim_strings_find(const SimStrings *strings, const char *text)
{
    if (text == NULL || *text == '\0')
        return 0;
    return find_slot(strings, text, compute_hash(text, strlen(text)))->id;
}

const char *sim_strings_get(const SimStrings *strings, SimStringId id)
{
    g_assert(id < strings->texts->len);
    return strings->texts->pdata[id];
}

size_t sim_strings_count(const SimStrings *strings)
{
    return strings->texts->len;
}
