/* SPDX-License-Identifier: Apache-2.0 */
#include "report/svg.h"

/* No variables: the programs that put pictures on slides know none. */
static const char style[] =
    ".fig{font-family:system-ui,'DejaVu Sans',Arial,sans-serif;font-size:13px}"
    ".fig .back{fill:#ffffff}.fig .panel{fill:#f3f5f7}"
    ".fig .c0{fill:#0072b2}.fig .c1{fill:#e69f00}.fig .c2{fill:#d55e00}.fig .c3{fill:#cc79a7}"
    ".fig .c4{fill:#009e73}.fig .c5{fill:#56b4e9}.fig .c6{fill:#f0e442}.fig .c7{fill:#8c959f}"
    ".fig .edge{stroke:#ffffff;stroke-width:.6}.fig .soft{fill-opacity:.3}"
    ".fig .outline{fill:none;stroke:#57606a;stroke-width:1.2;stroke-dasharray:4 3}"
    ".fig .rule{stroke:#d8dee4;stroke-width:1}.fig .axis{stroke:#57606a;stroke-width:1}"
    ".fig .limit{stroke:#d55e00;stroke-width:2;stroke-dasharray:8 4}"
    ".fig .reserved{fill:none;stroke:#1b1f24;stroke-width:1.4;stroke-dasharray:2 3}"
    ".fig .flow{stroke:#57606a;stroke-width:1.6;fill:none}.fig .head{fill:#57606a}"
    ".fig .hit{fill:#000000;fill-opacity:0}"
    ".fig .mark{fill:#ffffff;stroke:#1b1f24;stroke-width:2}"
    ".fig text{fill:#1b1f24}.fig text.dim{fill:#57606a}.fig text.dark{fill:#1b1f24}"
    ".fig text.light{fill:#ffffff}"
    ".fig .small{font-size:11.5px}.fig .big{font-size:20px;font-weight:650}"
    ".fig .strong{font-weight:650}"
    ".fig .focus{stroke:#1b1f24;stroke-width:2.5;stroke-opacity:1}"
    "@media(prefers-color-scheme:dark){"
    ".fig .back{fill:#14181d}.fig .panel{fill:#20262d}.fig .c0{fill:#3d9bd6}"
    ".fig .edge{stroke:#14181d}.fig .soft{fill-opacity:.45}.fig .outline{stroke:#9aa4af}"
    ".fig .rule{stroke:#3a424c}"
    ".fig .axis{stroke:#9aa4af}.fig .reserved{stroke:#e6edf3}.fig .flow{stroke:#9aa4af}"
    ".fig .head{fill:#9aa4af}.fig .mark{fill:#14181d;stroke:#e6edf3}"
    ".fig text{fill:#e6edf3}.fig text.dim{fill:#9aa4af}.fig .focus{stroke:#e6edf3}}";

const char *sim_svg_style(void)
{
    return style;
}

static void append_number(GString *text, const char *name, double value)
{
    char buffer[G_ASCII_DTOSTR_BUF_SIZE];
    g_string_append_printf(text, " %s=\"%s\"", name,
                           g_ascii_formatd(buffer, sizeof buffer, "%.2f", value));
}

static void append_escaped(GString *text, const char *value)
{
    g_autofree char *escaped = g_markup_escape_text(value, -1);
    g_string_append(text, escaped);
}

/* Ends an element that may have a hint. */
static void end_element(GString *text, const char *name, const char *class_names, const char *hint)
{
    g_string_append_printf(text, " class=\"%s\"", class_names);
    if (hint == NULL) {
        g_string_append(text, "/>\n");
        return;
    }
    g_string_append(text, "><title>");
    append_escaped(text, hint);
    g_string_append_printf(text, "</title></%s>\n", name);
}

void sim_svg_init(SimSvg *svg, const char *id, double width, double height, const char *title,
                  const char *description)
{
    char w[G_ASCII_DTOSTR_BUF_SIZE], h[G_ASCII_DTOSTR_BUF_SIZE];
    g_ascii_formatd(w, sizeof w, "%.0f", width);
    g_ascii_formatd(h, sizeof h, "%.0f", height);
    svg->text = g_string_new(NULL);
    g_string_append_printf(svg->text,
                           "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"fig\" role=\"img\" "
                           "width=\"%s\" height=\"%s\" viewBox=\"0 0 %s %s\" "
                           "aria-labelledby=\"%s-title %s-description\">\n<title id=\"%s-title\">",
                           w, h, w, h, id, id, id);
    append_escaped(svg->text, title);
    g_string_append_printf(svg->text, "</title>\n<desc id=\"%s-description\">", id);
    append_escaped(svg->text, description);
    g_string_append_printf(svg->text, "</desc>\n<style>%s</style>\n", style);
    sim_svg_rect(svg, (SimSvgBox){0, 0, width, height}, "back", NULL);
}

char *sim_svg_finish(SimSvg *svg)
{
    g_string_append(svg->text, "</svg>\n");
    return g_string_free(g_steal_pointer(&svg->text), FALSE);
}

void sim_svg_rect(SimSvg *svg, SimSvgBox box, const char *class_names, const char *hint)
{
    sim_svg_rounded(svg, box, 0, class_names, hint);
}

void sim_svg_rounded(SimSvg *svg, SimSvgBox box, double radius, const char *class_names,
                     const char *hint)
{
    g_string_append(svg->text, "<rect");
    append_number(svg->text, "x", box.x);
    append_number(svg->text, "y", box.y);
    append_number(svg->text, "width", box.width);
    append_number(svg->text, "height", box.height);
    if (radius > 0) {
        append_number(svg->text, "rx", radius);
    }
    end_element(svg->text, "rect", class_names, hint);
}

void sim_svg_line(SimSvg *svg, double x1, double y1, double x2, double y2, const char *class_names)
{
    g_string_append(svg->text, "<line");
    append_number(svg->text, "x1", x1);
    append_number(svg->text, "y1", y1);
    append_number(svg->text, "x2", x2);
    append_number(svg->text, "y2", y2);
    end_element(svg->text, "line", class_names, NULL);
}

void sim_svg_circle(SimSvg *svg, double x, double y, double radius, const char *class_names,
                    const char *hint)
{
    g_string_append(svg->text, "<circle");
    append_number(svg->text, "cx", x);
    append_number(svg->text, "cy", y);
    append_number(svg->text, "r", radius);
    end_element(svg->text, "circle", class_names, hint);
}

void sim_svg_arrow(SimSvg *svg, double x1, double y1, double x2, double y2)
{
    double along_x = x2 > x1 ? 1 : x2 < x1 ? -1 : 0;
    double along_y = y2 > y1 ? 1 : y2 < y1 ? -1 : 0;
    double size = 6;
    double back_x = x2 - along_x * size, back_y = y2 - along_y * size;
    sim_svg_line(svg, x1, y1, back_x, back_y, "flow");
    sim_svg_begin_path(svg, x2, y2);
    sim_svg_path_to(svg, back_x - along_y * size * 0.7, back_y - along_x * size * 0.7);
    sim_svg_path_to(svg, back_x + along_y * size * 0.7, back_y + along_x * size * 0.7);
    sim_svg_end_path(svg, true, "head", NULL);
}

void sim_svg_text(SimSvg *svg, double x, double y, const char *anchor, const char *class_names,
                  const char *value)
{
    g_string_append(svg->text, "<text");
    append_number(svg->text, "x", x);
    append_number(svg->text, "y", y);
    g_string_append_printf(svg->text, " text-anchor=\"%s\" class=\"%s\">", anchor, class_names);
    append_escaped(svg->text, value);
    g_string_append(svg->text, "</text>\n");
}

void sim_svg_textf(SimSvg *svg, double x, double y, const char *anchor, const char *class_names,
                   const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *value = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    sim_svg_text(svg, x, y, anchor, class_names, value);
}

static void append_point(SimSvg *svg, char command, double x, double y)
{
    char first[G_ASCII_DTOSTR_BUF_SIZE], second[G_ASCII_DTOSTR_BUF_SIZE];
    g_string_append_printf(svg->text, "%c%s %s", command,
                           g_ascii_formatd(first, sizeof first, "%.2f", x),
                           g_ascii_formatd(second, sizeof second, "%.2f", y));
}

void sim_svg_begin_path(SimSvg *svg, double x, double y)
{
    g_string_append(svg->text, "<path d=\"");
    append_point(svg, 'M', x, y);
}

void sim_svg_path_to(SimSvg *svg, double x, double y)
{
    append_point(svg, 'L', x, y);
}

void sim_svg_end_path(SimSvg *svg, bool is_closed, const char *class_names, const char *hint)
{
    g_string_append(svg->text, is_closed ? "Z\"" : "\"");
    end_element(svg->text, "path", class_names, hint);
}
