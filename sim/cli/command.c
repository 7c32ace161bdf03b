/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>

SimExit sim_command_fail(GError *error)
{
    fprintf(stderr, "fsdpsim: %s\n", error->message);
    g_error_free(error);
    return SIM_EXIT_BAD_INPUT;
}

SimExit sim_command_misuse(const char *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *message = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    fprintf(stderr, "fsdpsim: %s (see fsdpsim %s%s--help)\n", message, command,
            command[0] != '\0' ? " " : "");
    return SIM_EXIT_USAGE;
}

SimExit sim_command_print(const char *text)
{
    if (fputs(text, stdout) < 0 || fflush(stdout) != 0) {
        fprintf(stderr, "fsdpsim: standard output: %s\n", g_strerror(errno));
        return SIM_EXIT_BAD_INPUT;
    }
    return SIM_EXIT_DONE;
}
