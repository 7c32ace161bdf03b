/* SPDX-License-Identifier: Apache-2.0 */
#include "report/axis.h"

#include <glib.h>

double sim_axis_step(double most, unsigned count)
{
    static const double factors[] = {1, 2, 5};
    double power = 1;
    g_assert(most > 0 && count > 0);
    while (power * count > most) {
        power /= 10;
    }
    for (;; power *= 10) {
        for (size_t i = 0; i < G_N_ELEMENTS(factors); i++) {
            if (power * factors[i] * count >= most) {
                return power * factors[i];
            }
        }
    }
}

char *sim_axis_print(double value, double step)
{
    char *buffer = g_malloc(G_ASCII_DTOSTR_BUF_SIZE);
    const char *format = step >= 1 ? "%.0f" : step >= 0.1 ? "%.1f" : "%.2f";
    return g_ascii_formatd(buffer, G_ASCII_DTOSTR_BUF_SIZE, format, value);
}
