/* SPDX-License-Identifier: Apache-2.0 */
#include "executor/values.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

typedef struct Tensor {
    char *kind, *name;
    GArray *elements; /* of float; NAN where nobody has said */
} Tensor;

typedef struct Loss {
    double sum;
    uint32_t count;
} Loss;

struct SimValues {
    GMutex lock;
    GPtrArray *tensors;  /* of Tensor, in order of appearance */
    GHashTable *by_name; /* "kind name" -> Tensor, borrowed */
    GArray *losses;      /* of Loss, by step */
};

static void free_tensor(void *data)
{
    Tensor *tensor = data;
    g_free(tensor->kind);
    g_free(tensor->name);
    g_array_unref(tensor->elements);
    g_free(tensor);
}

SimValues *sim_values_new(void)
{
    SimValues *values = g_new0(SimValues, 1);
    g_mutex_init(&values->lock);
    values->tensors = g_ptr_array_new_with_free_func(free_tensor);
    values->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    values->losses = g_array_new(FALSE, TRUE, sizeof(Loss));
    return values;
}

void sim_values_free(SimValues *values)
{
    if (values == NULL)
        return;
    g_hash_table_unref(values->by_name);
    g_ptr_array_unref(values->tensors);
    g_array_unref(values->losses);
    g_mutex_clear(&values->lock);
    g_free(values);
}

static Tensor *find(const SimValues *values, const char *kind, const char *name)
{
    g_autofree char *key = g_strdup_printf("%s %s", kind, name);
    return g_hash_table_lookup(values->by_name, key);
}

static Tensor *get(SimValues *values, const char *kind, const char *name)
{
    Tensor *tensor = find(values, kind, name);
    if (tensor != NULL)
        return tensor;
    tensor = g_new0(Tensor, 1);
    tensor->kind = g_strdup(kind);
    tensor->name = g_strdup(name);
    tensor->elements = g_array_new(FALSE, FALSE, sizeof(float));
    g_ptr_array_add(values->tensors, tensor);
    g_hash_table_insert(values->by_name, g_strdup_printf("%s %s", kind, name), tensor);
    return tensor;
}

static void grow(Tensor *tensor, uint64_t n)
{
    guint before = tensor->elements->len;
    if (n <= before)
        return;
    g_array_set_size(tensor->elements, (guint)n);
    for (guint i = before; i < n; i++)
        g_array_index(tensor->elements, float, i) = NAN;
}

void sim_values_push(SimValues *values, const char *kind, const char *name, uint64_t first,
                     uint64_t n, const float *elements)
{
    g_mutex_lock(&values->lock);
    Tensor *tensor = get(values, kind, name);
    grow(tensor, first + n);
    memcpy(&g_array_index(tensor->elements, float, first), elements, n * sizeof *elements);
    g_mutex_unlock(&values->lock);
}

void sim_values_push_loss(SimValues *values, int32_t step, float loss)
{
    guint index = (guint)MAX(step, 0);
    g_mutex_lock(&values->lock);
    if (index >= values->losses->len)
        g_array_set_size(values->losses, index + 1);
    g_array_index(values->losses, Loss, index).sum += loss;
    g_array_index(values->losses, Loss, index).count++;
    g_mutex_unlock(&values->lock);
}

/* --- gathering ---------------------------------------------------------------------------------
 */

static void gather_losses(const SimValues *values, SimValues *whole, MPI_Comm world)
{
    int steps = (int)values->losses->len, ranks;
    MPI_Comm_size(world, &ranks);
    for (int i = 0; i < steps; i++) {
        const Loss *loss = &g_array_index(values->losses, Loss, (guint)i);
        double mean = loss->sum / MAX(loss->count, 1), sum = 0;
        PMPI_Reduce(&mean, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, world);
        if (whole != NULL)
            sim_values_push_loss(whole, i, (float)(sum / ranks));
    }
}

/* What of TENSOR the ranks have: not NAN. Where several have an element, the highest rank's. */
static void gather_tensor(const Tensor *tensor, const char *kind, const char *name,
                          SimValues *whole, MPI_Comm world)
{
    int ranks, own = (int)tensor->elements->len, length = 0;
    MPI_Comm_size(world, &ranks);
    PMPI_Allreduce(&own, &length, 1, MPI_INT, MPI_MAX, world);
    g_autofree float *part = g_new(float, (gsize)length + 1);
    for (int i = 0; i < length; i++)
        part[i] = i < own ? g_array_index(tensor->elements, float, (guint)i) : NAN;
    g_autofree float *all = whole != NULL ? g_new(float, (size_t)length *(size_t)ranks + 1) : NULL;
    PMPI_Gather(part, length, MPI_FLOAT, all, length, MPI_FLOAT, 0, world);
    if (whole == NULL)
        return;
    for (int i = 0; i < length; i++) {
        part[i] = NAN;
        for (int rank = 0; rank < ranks; rank++)
            if (!isnan(all[(size_t)rank * (size_t)length + (size_t)i]))
                part[i] = all[(size_t)rank * (size_t)length + (size_t)i];
    }
    sim_values_push(whole, kind, name, 0, (uint64_t)length, part);
}

/* Every tensor that rank ROOT has and that is not DONE yet. */
static void gather_tensors_of(const SimValues *values, int root, SimValues *whole, GHashTable *done,
                              MPI_Comm world)
{
    int rank, n = (int)values->tensors->len;
    MPI_Comm_rank(world, &rank);
    PMPI_Bcast(&n, 1, MPI_INT, root, world);
    const Tensor nothing = {NULL, NULL, g_array_new(FALSE, FALSE, sizeof(float))};
    for (int i = 0; i < n; i++) {
        char key[512] = "";
        if (rank == root) {
            const Tensor *own = g_ptr_array_index(values->tensors, (guint)i);
            g_snprintf(key, sizeof key, "%s %s", own->kind, own->name);
        }
        PMPI_Bcast(key, sizeof key, MPI_CHAR, root, world);
        if (!g_hash_table_add(done, g_strdup(key)))
            continue;
        const Tensor *tensor = g_hash_table_lookup(values->by_name, key);
        g_auto(GStrv) words = g_strsplit(key, " ", 2);
        gather_tensor(tensor != NULL ? tensor : &nothing, words[0], words[1], whole, world);
    }
    g_array_unref(nothing.elements);
}

/* A rank may have nothing of a tensor, so each rank's list counts. */
SimValues *sim_values_gather(const SimValues *values, MPI_Comm world)
{
    int rank, ranks;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &ranks);
    SimValues *whole = rank == 0 ? sim_values_new() : NULL;
    gather_losses(values, whole, world);
    g_autoptr(GHashTable) done = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (int root = 0; root < ranks; root++)
        gather_tensors_of(values, root, whole, done, world);
    return whole;
}

/* --- files -------------------------------------------------------------------------------------
 */

bool sim_values_save(const SimValues *values, const char *path, GError **error)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot write", path);
        return false;
    }
    for (guint i = 0; i < values->losses->len; i++) {
        float loss = (float)sim_values_loss(values, i);
        fprintf(file, "loss %u 1\n", i);
        fwrite(&loss, sizeof loss, 1, file);
    }
    for (guint i = 0; i < values->tensors->len; i++) {
        const Tensor *tensor = g_ptr_array_index(values->tensors, i);
        fprintf(file, "%s %s %u\n", tensor->kind, tensor->name, tensor->elements->len);
        fwrite(tensor->elements->data, sizeof(float), tensor->elements->len, file);
    }
    bool is_written = ferror(file) == 0;
    if (fclose(file) == 0 && is_written)
        return true;
    g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot write", path);
    return false;
}

/* One tensor of FILE; false at its end, or with ERROR. */
static bool load_tensor(SimValues *values, const char *path, FILE *file, GError **error)
{
    char line[600];
    if (fgets(line, sizeof line, file) == NULL)
        return false;
    g_auto(GStrv) words = g_strsplit(g_strchomp(line), " ", 3);
    guint64 n = g_strv_length(words) == 3 ? g_ascii_strtoull(words[2], NULL, 10) : 0;
    g_autofree float *elements = g_new0(float, n + 1);
    if (n == 0 || fread(elements, sizeof *elements, n, file) != n) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_PARSE, "%s: expected values of a run", path);
        return false;
    }
    if (strcmp(words[0], "loss") == 0)
        sim_values_push_loss(values, (int32_t)g_ascii_strtoll(words[1], NULL, 10), elements[0]);
    else
        sim_values_push(values, words[0], words[1], 0, n, elements);
    return true;
}

SimValues *sim_values_load(const char *path, GError **error)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_IO, "%s: cannot read", path);
        return NULL;
    }
    g_autoptr(SimValues) values = sim_values_new();
    GError *problem = NULL;
    while (load_tensor(values, path, file, &problem))
        continue;
    fclose(file);
    if (problem != NULL) {
        g_propagate_error(error, problem);
        return NULL;
    }
    return g_steal_pointer(&values);
}

/* --- comparison --------------------------------------------------------------------------------
 */

uint32_t sim_values_steps(const SimValues *values)
{
    return values->losses->len;
}

double sim_values_loss(const SimValues *values, uint32_t step)
{
    const Loss *loss = &g_array_index(values->losses, Loss, step);
    return loss->sum / MAX(loss->count, 1);
}

/* Squared norms, of the difference and of what is expected. */
typedef struct Norms {
    double difference, expected;
} Norms;

static Norms compare_tensors(const Tensor *tensor, const Tensor *expected)
{
    Norms norms = {0, 0};
    guint n = MIN(tensor->elements->len, expected->elements->len);
    for (guint i = 0; i < n; i++) {
        double a = g_array_index(tensor->elements, float, i);
        double b = g_array_index(expected->elements, float, i);
        norms.expected += b * b;
        norms.difference += (a - b) * (a - b);
    }
    return norms;
}

static double relative(Norms norms)
{
    if (isnan(norms.difference) || isnan(norms.expected))
        return INFINITY;
    return norms.difference == 0 ? 0 : sqrt(norms.difference / MAX(norms.expected, 1e-30));
}

/* A tensor's share of its kind: WORST and its NAME, and the SUM over all of one kind. */
static void note(Norms norms, const char *name, Norms *sum, double *worst, char **worst_name,
                 uint32_t *count)
{
    (*count)++;
    sum->difference += norms.difference;
    sum->expected += norms.expected;
    double value = relative(norms);
    if (*worst_name != NULL && value <= *worst)
        return;
    *worst = value;
    g_free(*worst_name);
    *worst_name = g_strdup(name);
}

/* Tensors of one kind stand together in EXPECTED or not; each kind has sums of its own. */
static bool compare_kind(const SimValues *values, const SimValues *expected, const char *kind,
                         SimValuesDifference *d, GError **error)
{
    bool is_parameter = strcmp(kind, "parameter") == 0;
    Norms sum = {0, 0};
    for (guint i = 0; i < expected->tensors->len; i++) {
        const Tensor *other = g_ptr_array_index(expected->tensors, i);
        if (strcmp(other->kind, kind) != 0)
            continue;
        const Tensor *own = find(values, kind, other->name);
        if (own == NULL || own->elements->len < other->elements->len) {
            g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH,
                        "%s of %s: expected %u elements, found %u", kind, other->name,
                        other->elements->len, own != NULL ? own->elements->len : 0);
            return false;
        }
        Norms norms = compare_tensors(own, other);
        if (is_parameter)
            note(norms, other->name, &sum, &d->parameter_of_worst, &d->worst_parameter,
                 &d->parameters);
        else
            note(norms, other->name, &sum, &d->gradient_of_worst, &d->worst_gradient,
                 &d->gradients);
    }
    double *whole = is_parameter                      ? &d->parameter
                    : strcmp(kind, "gradient:0") == 0 ? &d->first_gradient
                                                      : &d->gradient;
    *whole = MAX(*whole, relative(sum));
    return true;
}

/* True if a tensor before INDEX has its kind. */
static bool is_known_kind(const SimValues *values, guint index)
{
    const Tensor *tensor = g_ptr_array_index(values->tensors, index);
    for (guint i = 0; i < index; i++) {
        const Tensor *earlier = g_ptr_array_index(values->tensors, i);
        if (strcmp(earlier->kind, tensor->kind) == 0)
            return true;
    }
    return false;
}

bool sim_values_compare(const SimValues *values, const SimValues *expected, SimValuesDifference *d,
                        GError **error)
{
    *d = (SimValuesDifference){.losses = expected->losses->len};
    if (values->losses->len != expected->losses->len) {
        g_set_error(error, SIM_ERROR, SIM_ERROR_MISMATCH, "expected %u losses, found %u",
                    expected->losses->len, values->losses->len);
        return false;
    }
    for (guint i = 0; i < expected->losses->len; i++) {
        double a = sim_values_loss(values, i), b = sim_values_loss(expected, i);
        double difference = fabs(a - b) / MAX(fabs(b), 1e-30);
        d->loss = isnan(difference) ? INFINITY : MAX(d->loss, difference);
    }
    for (guint i = 0; i < expected->tensors->len; i++) {
        const Tensor *tensor = g_ptr_array_index(expected->tensors, i);
        if (!is_known_kind(expected, i) && !compare_kind(values, expected, tensor->kind, d, error))
            return false;
    }
    return true;
}

void sim_values_difference_clear(SimValuesDifference *difference)
{
    g_clear_pointer(&difference->worst_gradient, g_free);
    g_clear_pointer(&difference->worst_parameter, g_free);
}
