/* SPDX-License-Identifier: Apache-2.0
 *
 * A picture as SVG 1.1 text. It stands alone as a file or in a page: colours are classes, whose
 * values for light and dark screens come from the picture's own style (palette of Okabe and Ito,
 * "Color Universal Design", 2008: eight colours that colour-blind readers tell apart).
 *
 * Lengths are pixels of the picture's own width; it scales to the page. All text is escaped.
 * Numbers have two decimals in any locale.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>

typedef struct SimSvg {
    GString *text; /* owned */
} SimSvg;

typedef struct SimSvgBox {
    double x, y, width, height;
} SimSvgBox;

/* ID distinguishes the pictures of one page. TITLE and DESCRIPTION are what a screen reader says.
 */
void sim_svg_init(SimSvg *svg, const char *id, double width, double height, const char *title,
                  const char *description);
/* Ends the picture and returns its text, owned by the caller. */
char *sim_svg_finish(SimSvg *svg);

/* HINT, if not NULL, is shown while the pointer is on it. */
void sim_svg_rect(SimSvg *svg, SimSvgBox box, const char *class_names, const char *hint);
void sim_svg_rounded(SimSvg *svg, SimSvgBox box, double radius, const char *class_names,
                     const char *hint);
void sim_svg_line(SimSvg *svg, double x1, double y1, double x2, double y2, const char *class_names);
void sim_svg_circle(SimSvg *svg, double x, double y, double radius, const char *class_names,
                    const char *hint);
/* A line with an arrow's head at its end (straight along an axis). */
void sim_svg_arrow(SimSvg *svg, double x1, double y1, double x2, double y2);

/* ANCHOR: "start", "middle", "end". */
void sim_svg_text(SimSvg *svg, double x, double y, const char *anchor, const char *class_names,
                  const char *value);
void sim_svg_textf(SimSvg *svg, double x, double y, const char *anchor, const char *class_names,
                   const char *format, ...) G_GNUC_PRINTF(6, 7);

/* A path, point by point. */
void sim_svg_begin_path(SimSvg *svg, double x, double y);
void sim_svg_path_to(SimSvg *svg, double x, double y);
void sim_svg_end_path(SimSvg *svg, bool is_closed, const char *class_names, const char *hint);

/* The style that all pictures share, for a page that holds several. */
const char *sim_svg_style(void);
