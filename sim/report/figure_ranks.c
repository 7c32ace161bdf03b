/* SPDX-License-Identifier: Apache-2.0 */
#include "report/figure_ranks.h"

#include "report/axis.h"
#include "report/svg.h"

#define WIDTH 1000.0
#define HEIGHT 540.0
#define LEFT 76.0
#define RIGHT 24.0
#define TOP 112.0
#define BOTTOM 62.0

typedef struct Chart {
    SimSvg svg;
    const GArray *points;
    double most;
} Chart;

static const SimRankPoint *point_at(const Chart *chart, guint index)
{
    return &g_array_index(chart->points, SimRankPoint, index);
}

static double y_of(const Chart *chart, double bytes)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * bytes / chart->most;
}

static void draw_piece(Chart *chart, double x, double width, double from, uint64_t bytes,
                       const char *class_names, const char *name)
{
    g_autofree char *size = sim_units_print_bytes(bytes);
    g_autofree char *hint =
        g_strdup_printf("%s: %s (%" G_GUINT64_FORMAT " bytes)", name, size, bytes);
    double top = y_of(chart, from + (double)bytes);
    sim_svg_rect(&chart->svg, (SimSvgBox){x, top, width, y_of(chart, from) - top}, class_names,
                 hint);
}

static void draw_bar(Chart *chart, guint index)
{
    const SimRankPoint *point = point_at(chart, index);
    double pitch = (WIDTH - LEFT - RIGHT) / chart->points->len;
    double width = MIN(pitch * 0.64, 90);
    double x = LEFT + pitch * (index + 0.5) - width / 2;
    double from = 0;
    for (int series = 0; series < SIM_SERIES_COUNT; series++) {
        g_autofree char *classes =
            g_strdup_printf("%s edge", sim_memory_series_class((SimSeries)series));
        if (point->bytes[series] > 0) {
            draw_piece(chart, x, width, from, point->bytes[series], classes,
                       sim_memory_series_name((SimSeries)series));
        }
        from += (double)point->bytes[series];
    }
    if (point->reserved_bytes > point->allocated_bytes) {
        draw_piece(chart, x, width, (double)point->allocated_bytes,
                   point->reserved_bytes - point->allocated_bytes, "outline",
                   "reserved, not allocated");
    }
    g_autofree char *size = sim_units_print_bytes(point->reserved_bytes);
    double top = y_of(chart, (double)MAX(point->reserved_bytes, point->allocated_bytes));
    sim_svg_text(&chart->svg, x + width / 2, top - 7, "middle", "small strong",
                 point->fits ? size : "out of memory");
    sim_svg_textf(&chart->svg, x + width / 2, HEIGHT - BOTTOM + 20, "middle", "", "%u",
                  point->ranks);
}

static void draw_axis(Chart *chart)
{
    double step = sim_axis_step(chart->most / (double)SIM_GIB, 6);
    for (double at = 0; at * (double)SIM_GIB <= chart->most; at += step) {
        double y = y_of(chart, at * (double)SIM_GIB);
        g_autofree char *label = sim_axis_print(at, step);
        sim_svg_line(&chart->svg, LEFT, y, WIDTH - RIGHT, y, "rule");
        sim_svg_textf(&chart->svg, LEFT - 8, y + 4, "end", "small dim", "%s GiB", label);
    }
    sim_svg_text(&chart->svg, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18, "middle", "",
                 "ranks (GPUs)");
}

static bool is_used(const Chart *chart, int series)
{
    for (guint i = 0; i < chart->points->len; i++) {
        if (point_at(chart, i)->bytes[series] > 0) {
            return true;
        }
    }
    return false;
}

static void draw_legend(Chart *chart)
{
    double x = LEFT, y = 66;
    for (int i = 0; i <= SIM_SERIES_COUNT; i++) {
        bool is_reserved = i == SIM_SERIES_COUNT;
        if (!is_reserved && !is_used(chart, i)) {
            continue;
        }
        const char *name =
            is_reserved ? "reserved, not allocated" : sim_memory_series_name((SimSeries)i);
        double width = 30 + 7.2 * (double)g_utf8_strlen(name, -1);
        if (x + width > WIDTH - RIGHT) {
            x = LEFT;
            y += 20;
        }
        sim_svg_rounded(&chart->svg, (SimSvgBox){x, y - 10, 12, 12}, 2,
                        is_reserved ? "outline" : sim_memory_series_class((SimSeries)i), NULL);
        sim_svg_text(&chart->svg, x + 18, y, "start", "small", name);
        x += width;
    }
}

/* Why the curve is flat at its end: what does not shrink with the ranks. */
static void draw_reason(Chart *chart)
{
    const SimRankPoint *first = point_at(chart, 0);
    const SimRankPoint *last = point_at(chart, chart->points->len - 1);
    uint64_t sharded = 0;
    for (int series = 0; series < SIM_SERIES_COUNT; series++) {
        bool is_sharded = series == SIM_SERIES_SHARD || series == SIM_SERIES_GRADIENT ||
                          series == SIM_SERIES_OPTIMIZER;
        sharded += is_sharded ? last->bytes[series] : 0;
    }
    g_autofree char *shards = sim_units_print_bytes(sharded);
    g_autofree char *rest = sim_units_print_bytes(last->allocated_bytes - sharded);
    sim_svg_textf(&chart->svg, LEFT, 44, "start", "dim",
                  "From %u to %u ranks only what is sharded shrinks, to %s; %s of working memory "
                  "stay whatever the number of ranks.",
                  first->ranks, last->ranks, shards, rest);
}

char *sim_figure_ranks_draw(const GArray *points)
{
    Chart chart = {.points = points};
    double room = 0;
    g_autoptr(GString) description = g_string_new("Peak reserved memory of a rank:");
    g_assert(points->len > 0);
    for (guint i = 0; i < points->len; i++) {
        const SimRankPoint *point = point_at(&chart, i);
        chart.most = MAX(chart.most, (double)MAX(point->reserved_bytes, point->allocated_bytes));
        room = (double)point->room_bytes;
        g_string_append_printf(description, " %u ranks %" G_GUINT64_FORMAT " bytes%s", point->ranks,
                               point->reserved_bytes, i + 1 < points->len ? "," : ".");
    }
    bool has_limit = room < 2.5 * chart.most;
    chart.most = MAX(chart.most, has_limit ? room : 0) * 1.08;
    sim_svg_init(&chart.svg, "ranks", WIDTH, HEIGHT, "Peak memory of a rank by number of ranks",
                 description->str);
    sim_svg_text(&chart.svg, LEFT, 24, "start", "big", "Peak memory of a rank by number of ranks");
    draw_reason(&chart);
    draw_legend(&chart);
    draw_axis(&chart);
    for (guint i = 0; i < points->len; i++) {
        draw_bar(&chart, i);
    }
    if (has_limit) {
        g_autofree char *size = sim_units_print_bytes((uint64_t)room);
        sim_svg_line(&chart.svg, LEFT, y_of(&chart, room), WIDTH - RIGHT, y_of(&chart, room),
                     "limit");
        sim_svg_textf(&chart.svg, WIDTH - RIGHT, y_of(&chart, room) - 6, "end", "small",
                      "room for PyTorch: %s", size);
    }
    return sim_svg_finish(&chart.svg);
}
