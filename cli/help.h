/* Help, man pages, the reference on the site and shell completions: renderings of the table of spec.c. */
#pragma once

#include <stdio.h>

#include "cli/spec.h"

void help_overview(FILE *out);
void help_command(FILE *out, const spec_command *command);

/* "--sigma2-y LIST" or "-o, --output MODEL". */
void help_option_heading(char *out, size_t size, const circe_option *option);

/* " (default: 0.5)", or nothing. */
void help_option_default(char *out, size_t size, const circe_option *option);

/* Its options, group by group. */
void help_options(FILE *out, const spec_command *command, void (*group)(FILE *out, const char *name, bool first),
                  void (*option)(FILE *out, const circe_option *option));

/* Writes what `page` makes of a command; of NULL, which stands for all of them. Returns an exit status. */
typedef void help_page_fn(FILE *out, const spec_command *command);
int help_write_page(const char *path, help_page_fn *page, const spec_command *command);

/* The same as DIRECTORY/`prefix`COMMAND`ending` for each command that is not hidden. */
int help_write_pages(const char *directory, const char *prefix, const char *ending, help_page_fn *page);

/* Writes circe.1 and a circe-COMMAND.1 for each command that is not hidden into a folder; returns an exit status. */
int manpage_write_all(const char *directory);

/* Writes a Markdown page COMMAND.md for each of them into a folder; returns an exit status. */
int reference_write_all(const char *directory);

void completion_bash(FILE *out);
void completion_zsh(FILE *out);
