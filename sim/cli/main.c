/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/error.h"
#include "cli/command.h"

static const SimCommand commands[] = {
    {"predict", "what will memory, time and communication be?", sim_command_predict},
    {"check", "is this schedule safe before I run it?", sim_command_check},
    {"collectives", "what would nccl-tests print on this cluster?", sim_command_collectives},
    {"validate", "does the simulator agree with a real run here?", sim_command_validate},
    {"list", "models, GPUs and clusters that ship", sim_command_list},
};

static SimExit print_help(void)
{
    g_autoptr(GString) text = g_string_new("Usage: fsdpsim COMMAND [OPTIONS] [ARGUMENTS]\n\n"
                                           "Simulates the memory and communication of PyTorch "
                                           "FSDP.\n\nCommands:\n");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        g_string_append_printf(text, "  %-11s %s\n", commands[i].name, commands[i].summary);
    }
    g_string_append(text, "\nOptions:\n"
                          "  --help     this help; fsdpsim COMMAND --help for a command's\n"
                          "  --version  the version\n\n"
                          "Example: fsdpsim predict llama-3.1-8b --gpus 8\n");
    return sim_command_print(text->str);
}

static SimExit fail_unknown(const char *name)
{
    const char *names[G_N_ELEMENTS(commands) + 1] = {NULL};
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        names[i] = commands[i].name;
    }
    if (name[0] == '-') {
        return sim_command_misuse("", "unknown option '%s'", name);
    }
    return sim_command_misuse("", "unknown command '%s'; did you mean '%s'?", name,
                              sim_error_nearest(name, names));
}

static SimExit run_command(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    if (name == NULL) {
        return sim_command_misuse("", "expected a command");
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return print_help();
    }
    if (strcmp(name, "--version") == 0) {
        return sim_command_print("fsdpsim " FSDPSIM_VERSION "\n");
    }
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return fail_unknown(name);
}

int main(int argc, char **argv)
{
    return (int)run_command(argc, argv);
}
