/* SPDX-License-Identifier: Apache-2.0
 *
 * Text between the quotes of a JSON string (RFC 8259): names come from users' files.
 */
#pragma once

#include <glib.h>

/* Appends VALUE (UTF-8) to TEXT with what JSON forbids escaped, and "<" too, so that the result may
 * stand in a script of an HTML page. */
void sim_json_text_append(GString *text, const char *value);
