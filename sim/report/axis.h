/* SPDX-License-Identifier: Apache-2.0
 *
 * Round numbers for the axes of charts.
 */
#pragma once

/* The smallest of 1, 2, 5 times a power of ten with at most COUNT steps up to MOST (above 0). */
double sim_axis_step(double most, unsigned count);

/* VALUE with as many decimals as multiples of STEP need. Owned by the caller. */
char *sim_axis_print(double value, double step);
