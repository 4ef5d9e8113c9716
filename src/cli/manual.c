// SPDX-License-Identifier: Apache-2.0
/* manual.c -- `mambascope manual`: prints the man page, from the same tables that parse options and print --help, and
 * completion for shells. Completion asks the program itself (`COMMAND --list-options`), so that it knows every
 * option. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/options.h"
#include "core/version.h"

static const char head[] =
    ".TH MAMBASCOPE 1 \"\" \"mambascope " MBA_VERSION "\" \"User Commands\"\n"
    ".SH NAME\nmambascope \\- trains, profiles and simulates Mamba models\n"
    ".SH SYNOPSIS\n.B mambascope\n.I COMMAND\n[options]\n"
    ".SH DESCRIPTION\n"
    "One program that trains Mamba\\-1, Mamba\\-2, hybrid, MambaVision and Graph\\-Mamba models on the CPU and on "
    "NVIDIA GPUs,\n"
    "records what the hardware does in one file per run, makes a page from such files, and predicts training "
    "steps\n"
    "on GPUs that need not be there. Data goes to standard output, messages to standard error.\n"
    ".SH COMMANDS\n";

static const char tail[] =
    ".SH FILES\n"
    ".TP\n.I results/suite\n"
    "where `suite` writes its stores, report.html and summary.json unless \\-\\-out names another folder\n"
    ".SH ENVIRONMENT\n"
    ".TP\n.B OMP_NUM_THREADS\nnumber of threads if \\-\\-threads is not given\n"
    ".TP\n.B MBA_ISA\nbase, avx2 or avx512: use a smaller instruction set than the machine has\n"
    ".TP\n.B MBA_GEMM\npacked or openblas: which matrix products the CPU runs\n"
    ".TP\n.B MAMBASCOPE_KERNELS\nwhere the PyTorch binding finds libmambascope_kernels.so, if not beside it or in "
    "build/\n"
    ".TP\n.B MBA_CHROMIUM\nbrowser for the tests of the report\n"
    ".SH EXIT STATUS\n0: success; 1: something failed; 2: wrong usage. Errors say what happened, why, and how to fix "
    "it.\n"
    ".SH SEE ALSO\n"
    "docs/ of the source tree: commands.md, report.md, store.md, metrics.md and a guide for each reader.\n";

static const char bash[] =
    "# bash completion of mambascope: mambascope manual --bash > /usr/share/bash-completion/completions/mambascope\n"
    "_mambascope() {\n"
    "  local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} names\n"
    "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
    "    COMPREPLY=($(compgen -W \"$(\"$program\" manual --list 2>/dev/null)\" -- \"$word\"))\n"
    "    return\n"
    "  fi\n"
    "  case $before in\n"
    "    --model)  COMPREPLY=($(compgen -W \"$(\"$program\" list models --csv 2>/dev/null | cut -d, -f1)\" -- "
    "\"$word\")); return ;;\n"
    "    --device) COMPREPLY=($(compgen -W 'cpu cuda' -- \"$word\")); return ;;\n"
    "    --precision) COMPREPLY=($(compgen -W 'fp32 tf32 bf16' -- \"$word\")); return ;;\n"
    "    --machine) COMPREPLY=($(compgen -W \"$(\"$program\" list machines --csv 2>/dev/null | cut -d, -f1)\" -f -- "
    "\"$word\")); return ;;\n"
    "    --figure) COMPREPLY=($(compgen -W \"$(\"$program\" report --list 2>/dev/null | cut -d' ' -f1)\" -- "
    "\"$word\")); return ;;\n"
    "  esac\n"
    "  case $word in\n"
    "    -*) names=$(\"$program\" \"${COMP_WORDS[1]}\" --list-options 2>/dev/null | cut -f1)\n"
    "        COMPREPLY=($(compgen -W \"$names --help\" -- \"$word\")) ;;\n"
    "    *)  COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
    "  esac\n"
    "}\n"
    "complete -o filenames -F _mambascope mambascope\n";

static const char zsh[] =
    "#compdef mambascope\n"
    "# zsh completion of mambascope: mambascope manual --zsh > /usr/local/share/zsh/site-functions/_mambascope\n"
    "_mambascope() {\n"
    "  local program=$words[1] names\n"
    "  if (( CURRENT == 2 )); then\n"
    "    names=(${(f)\"$($program manual --list 2>/dev/null)\"})\n"
    "  elif [[ $words[CURRENT-1] == --model ]]; then\n"
    "    names=(${(f)\"$($program list models --csv 2>/dev/null | cut -d, -f1)\"})\n"
    "  elif [[ $words[CURRENT] == -* ]]; then\n"
    "    names=(${(f)\"$($program $words[2] --list-options 2>/dev/null | cut -f1)\"} --help)\n"
    "  else\n"
    "    _files\n"
    "    return\n"
    "  fi\n"
    "  compadd -a names\n"
    "}\n"
    "_mambascope \"$@\"\n";

static const char fish[] =
    "# fish completion of mambascope: mambascope manual --fish > ~/.config/fish/completions/mambascope.fish\n"
    "complete -c mambascope -n __fish_use_subcommand -f -a '(mambascope manual --list 2>/dev/null)'\n"
    "complete -c mambascope -n 'string match -q -- \"--model\" (commandline -opc)[-1]' -f "
    "-a '(mambascope list models --csv 2>/dev/null | cut -d, -f1)'\n"
    "complete -c mambascope -n 'string match -q -- \"-*\" (commandline -ct); and not __fish_use_subcommand' -f "
    "-a '(mambascope (commandline -opc)[2] --list-options 2>/dev/null | cut -f1; echo --help)'\n";

static mba_status print_page(void)
{
    fputs(head, stdout);
    for (const mba_command *c = mba_commands; c->name; c++) {
        char name[32], how[] = "--manual", *argv[] = { name, how, NULL };
        snprintf(name, sizeof name, "%s", c->name);
        MBA_TRY(c->run(2, argv));
    }
    fputs(tail, stdout);
    return MBA_OK;
}

mba_status mba_command_manual(int argc, char **argv)
{
    bool             in_bash = false, in_zsh = false, in_fish = false, list = false, help;
    const mba_option options[] = {
        { "--bash", MBA_OPT_FLAG, &in_bash, NULL, "print the completion for bash instead", 0, 0 },
        { "--zsh", MBA_OPT_FLAG, &in_zsh, NULL, "print the completion for zsh instead", 0, 0 },
        { "--fish", MBA_OPT_FLAG, &in_fish, NULL, "print the completion for fish instead", 0, 0 },
        { "--list", MBA_OPT_FLAG, &list, NULL, "print the names of all commands instead", 0, 0 },
        { 0 },
    };
    const mba_usage usage = {
        "manual", "[--bash|--zsh|--fish|--list]",
        "Prints the man page, made from the same tables as --help, or the completion of\n"
        "commands and options for a shell.",
        options,
        "mambascope manual | man -l -\nmambascope manual > /usr/local/share/man/man1/mambascope.1\n"
        "eval \"$(mambascope manual --bash)\"\n"
    };
    MBA_TRY(mba_options_parse(&usage, argc, argv, NULL, &help));
    if (help) return MBA_OK;
    if (in_bash + in_zsh + in_fish + list > 1)
        return mba_fail(MBA_E_ARG, "--bash, --zsh, --fish and --list cannot be combined");
    for (const mba_command *c = mba_commands; list && c->name; c++) puts(c->name);
    if (list) return MBA_OK;
    if (!in_bash && !in_zsh && !in_fish) return print_page();
    fputs(in_bash ? bash : in_zsh ? zsh : fish, stdout);
    return MBA_OK;
}
