/* SPDX-License-Identifier: Apache-2.0 */
#include "check/rank_meetings.h"

#define NONE SIM_RANK_MEETINGS_NONE

/* Numbers sequences of words: equal ones get equal numbers, in order of first appearance. */
static uint32_t number_words(GHashTable *table, const uint32_t *words, size_t n)
{
    GBytes *key = g_bytes_new(words, n * sizeof(uint32_t));
    gpointer known = g_hash_table_lookup(table, key);
    if (known != NULL) {
        g_bytes_unref(key);
        return GPOINTER_TO_UINT(known) - 1;
    }
    uint32_t number = g_hash_table_size(table);
    g_hash_table_insert(table, key, GUINT_TO_POINTER(number + 1));
    return number;
}

static GHashTable *new_numbers(void)
{
    return g_hash_table_new_full(g_bytes_hash, g_bytes_equal, (GDestroyNotify)g_bytes_unref, NULL);
}

static gint compare_words(gconstpointer a, gconstpointer b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The classes in LIST, each once, ascending. Owned by the caller. */
static GArray *list_classes(const SimMeetingList *list, const uint32_t *class_of)
{
    GArray *all = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    uint32_t last = NONE;
    for (uint32_t i = 0; i < list->n_ranks; i++) {
        uint32_t rank_class = class_of[list->ranks[i]];
        if (rank_class == NONE || rank_class == last)
            continue;
        g_array_append_val(all, rank_class);
        last = rank_class;
    }
    g_array_sort(all, compare_words);
    guint kept = 0;
    for (guint i = 0; i < all->len; i++) {
        uint32_t rank_class = g_array_index(all, uint32_t, i);
        if (kept == 0 || g_array_index(all, uint32_t, kept - 1) != rank_class)
            g_array_index(all, uint32_t, kept++) = rank_class;
    }
    g_array_set_size(all, kept);
    return all;
}

/* One round: *N_CLASSES grows, or nothing changed. KEYS: by list, the number of its set of classes.
 */
static void refine(uint32_t *class_of, uint32_t n_ranks, uint32_t n_groups,
                   const SimMeetingList *lists, uint32_t n_lists, uint32_t *n_classes)
{
    uint32_t width = n_groups + 1;
    g_autofree uint32_t *words = g_new(uint32_t, (gsize)MAX(n_ranks, 1) * width);
    for (uint32_t r = 0; r < n_ranks; r++) {
        for (uint32_t g = 0; g < n_groups; g++)
            words[(gsize)r * width + g] = NONE;
        words[(gsize)r * width + n_groups] = class_of[r];
    }
    g_autoptr(GHashTable) sets = new_numbers();
    for (uint32_t l = 0; l < n_lists; l++) {
        g_autoptr(GArray) classes = list_classes(&lists[l], class_of);
        uint32_t size = lists[l].n_ranks;
        g_array_append_val(classes, size);
        uint32_t set = number_words(sets, (const uint32_t *)(void *)classes->data, classes->len);
        for (uint32_t i = 0; i < lists[l].n_ranks; i++)
            words[(gsize)lists[l].ranks[i] * width + lists[l].group] = set;
    }
    g_autoptr(GHashTable) numbers = new_numbers();
    for (uint32_t r = 0; r < n_ranks; r++)
        if (class_of[r] != NONE)
            class_of[r] = number_words(numbers, &words[(gsize)r * width], width);
    *n_classes = g_hash_table_size(numbers);
}

static void free_meeting(gpointer data)
{
    SimMeeting *meeting = data;
    g_array_unref(meeting->classes);
    g_free(meeting);
}

static void make_meetings(SimRankMeetings *ranks, const SimMeetingList *lists, uint32_t n_lists)
{
    for (uint32_t l = 0; l < n_lists; l++) {
        GArray *classes = list_classes(&lists[l], ranks->class_of);
        uint32_t first = classes->len > 0 ? g_array_index(classes, uint32_t, 0) : NONE;
        if (first == NONE ||
            ranks->meetings_of[(gsize)first * ranks->n_groups + lists[l].group] != NONE) {
            g_array_unref(classes);
            continue;
        }
        SimMeeting *meeting = g_new0(SimMeeting, 1);
        *meeting = (SimMeeting){.group = lists[l].group, .classes = classes, .list = l};
        for (guint i = 0; i < classes->len; i++)
            ranks->meetings_of[(gsize)g_array_index(classes, uint32_t, i) * ranks->n_groups +
                               lists[l].group] = ranks->meetings->len;
        g_ptr_array_add(ranks->meetings, meeting);
    }
}

SimRankMeetings *sim_rank_meetings_new(const uint32_t *program_of, uint32_t n_ranks,
                                       uint32_t n_groups, const SimMeetingList *lists,
                                       uint32_t n_lists)
{
    SimRankMeetings *ranks = g_new0(SimRankMeetings, 1);
    ranks->n_groups = n_groups;
    ranks->class_of = g_memdup2(program_of, MAX(n_ranks, 1) * sizeof(uint32_t));
    uint32_t before = 0, now = 0;
    do {
        before = now;
        refine(ranks->class_of, n_ranks, n_groups, lists, n_lists, &now);
    } while (now != before);
    ranks->n_classes = now;
    ranks->rank_of = g_new(uint32_t, MAX(now, 1));
    ranks->size_of = g_new0(uint32_t, MAX(now, 1));
    for (uint32_t r = n_ranks; r > 0; r--) {
        uint32_t rank_class = ranks->class_of[r - 1];
        if (rank_class == NONE)
            continue;
        ranks->rank_of[rank_class] = r - 1;
        ranks->size_of[rank_class]++;
    }
    gsize n = MAX((gsize)now * n_groups, 1);
    ranks->meetings_of = g_new(uint32_t, n);
    for (gsize i = 0; i < n; i++)
        ranks->meetings_of[i] = NONE;
    ranks->meetings = g_ptr_array_new_with_free_func(free_meeting);
    make_meetings(ranks, lists, n_lists);
    return ranks;
}

void sim_rank_meetings_free(SimRankMeetings *ranks)
{
    if (ranks == NULL)
        return;
    g_free(ranks->class_of);
    g_free(ranks->rank_of);
    g_free(ranks->size_of);
    g_free(ranks->meetings_of);
    g_clear_pointer(&ranks->meetings, g_ptr_array_unref);
    g_free(ranks);
}

const SimMeeting *sim_rank_meetings_meeting(const SimRankMeetings *ranks, uint32_t rank_class,
                                            uint32_t group)
{
    uint32_t meeting = ranks->meetings_of[(gsize)rank_class * ranks->n_groups + group];
    return meeting == NONE ? NULL : g_ptr_array_index(ranks->meetings, meeting);
}
