/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of fsdpsim. Each is one function that takes its own argument vector (ARGV[0] is the
 * command's name) and returns the exit code. Results go to standard output, messages to standard
 * error.
 */
#pragma once

#include <glib.h>

typedef enum SimExit {
    SIM_EXIT_DONE,      /* and fits, is safe, agrees */
    SIM_EXIT_NO,        /* done, and the answer is no */
    SIM_EXIT_USAGE,     /* unknown command or option, missing argument */
    SIM_EXIT_BAD_INPUT, /* a value, a file */
} SimExit;

typedef struct SimCommand {
    const char *name;
    const char *summary; /* the question it answers */
    SimExit (*run)(int argc, char **argv);
} SimCommand;

SimExit sim_command_predict(int argc, char **argv);
SimExit sim_command_check(int argc, char **argv);
SimExit sim_command_collectives(int argc, char **argv);
SimExit sim_command_list(int argc, char **argv);
SimExit sim_command_validate(int argc, char **argv);

/* Writes the message of a bad value or file, which is taken over; returns BAD_INPUT. */
SimExit sim_command_fail(GError *error);

/* Writes what is wrong with the way COMMAND was called, and where help is; returns USAGE. */
SimExit sim_command_misuse(const char *command, const char *format, ...) G_GNUC_PRINTF(2, 3);

/* Writes TEXT to standard output. Returns DONE, or BAD_INPUT if that fails (a full disk). */
SimExit sim_command_print(const char *text);
