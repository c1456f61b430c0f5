/* Help, man pages, the reference on the site and shell completions: renderings of the table of spec.c. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/spec.h"

void help_overview(FILE *out);
void help_command(FILE *out, const spec_command *command);

/* "--sigma2-y LIST" or "-o, --output MODEL". */
void help_option_heading(char *out, size_t size, const circe_option *option);

/* " (default: 0.5)", or nothing. */
void help_option_default(char *out, size_t size, const circe_option *option);

/* Writes circe.1 and a circe-COMMAND.1 for each command that is not hidden into a folder; returns an exit status. */
int manpage_write_all(const char *directory);

/* Writes a Markdown page COMMAND.md for each of them into a folder; returns an exit status. */
int reference_write_all(const char *directory);

void completion_bash(FILE *out);
void completion_zsh(FILE *out);

#endif
