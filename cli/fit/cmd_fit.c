/* circe fit: from y and z to a model file. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/common/fitting.h"
#include "cli/common/from_args.h"
#include "cli/common/message.h"
#include "cli/common/model_file.h"
#include "cli/common/output.h"
#include "cli/common/parse.h"
#include "cli/common/progress.h"
#include "cli/common/ranks.h"
#include "io/paths.h"
#include "io/reading.h"
#include "jobs/sentinels.h"
#include "mpi/mpi_fit.h"

static int print_json(const args *arguments, const circe_cme *cme, const input *const group[2], const notes *warnings,
                      int64_t dropped) {
    circe_cme_info info;
    circe_cme_get_info(cme, &info);
    cJSON *out = cJSON_CreateObject();
    cJSON_AddStringToObject(out, "model", args_text(arguments, OPT_OUTPUT_MODEL));
    json_integer(out, "n", info.rows);
    json_integer(out, "dropped", dropped);
    json_inputs(out, group, 2);
    cJSON_AddStringToObject(out, "method", circe_method_name(info.method));
    cJSON_AddStringToObject(out, "solver", circe_method_name(info.solver));
    json_kernel(out, "y", circe_cme_kernel_y(cme));
    json_kernel(out, "z", circe_cme_kernel_z(cme));
    json_integer(out, "rank_y", info.rank_y);
    json_integer(out, "rank_z", info.rank_z);
    json_number(out, "trace_residual_y", info.trace_residual_y);
    json_number(out, "trace_residual_z", info.trace_residual_z);
    json_number(out, "ridge", info.ridge);
    json_number(out, "ridge_safe", info.ridge_safe);
    cJSON_AddBoolToObject(out, "ridge_raised", info.ridge_raised != 0);
    json_loo(out, cme);
    json_notes(out, &(circe_notes){warnings->text, warnings->n});
    json_number(out, "seconds", info.seconds);
    return json_print(out);
}

static void print_text(const args *arguments, const circe_cme *cme, const input *const group[2]) {
    circe_cme_info info;
    circe_loo_table loo;
    char time[32], kernel[512];
    circe_cme_get_info(cme, &info);
    circe_cme_get_loo(cme, &loo);
    const char *model = args_text(arguments, OPT_OUTPUT_MODEL);
    printf("Fitted the conditional mean of z given y on %" PRId64 " rows in %s.\n\n", info.rows,
           text_seconds(info.seconds, time, sizeof time));
    if (info.method == info.solver)
        text_row("method", "%s", circe_method_name(info.method));
    else
        text_row("method", "%s, solved by %s", circe_method_name(info.method), circe_method_name(info.solver));
    text_inputs(group, 2);
    text_row("kernel of y", "%s", text_kernel(circe_cme_kernel_y(cme), kernel, sizeof kernel));
    text_row("kernel of z", "%s", text_kernel(circe_cme_kernel_z(cme), kernel, sizeof kernel));
    text_row("ridge", "%g%s", info.ridge, info.ridge_raised ? " (raised to the smallest safe one)" : "");
    text_row("rank of y, z", "%" PRId64 ", %" PRId64 " (share of the trace left out: %.1e, %.1e)", info.rank_y,
             info.rank_z, info.trace_residual_y, info.trace_residual_z);
    printf("\nLeave-one-out error; smaller is better, * is the best.\n\n");
    text_loo(&loo);
    printf(
        "\nThe model is in %s. Measure a feature x against it, on other rows:\n"
        "  circe measure circe --x X --y Y --z Z --model %s\n",
        model, model);
}

static int fit_and_save(const session *s, const args *arguments, const input *y, const input *z, int64_t dropped) {
    const input *const group[] = {y, z};
    circe_cme *cme = NULL;
    notes warnings = {0};
    const char *model = args_text(arguments, OPT_OUTPUT_MODEL);
    bool quiet = args_given(arguments, OPT_QUIET);
    sentinels_note(group, 2, &warnings);
    int status = fitting_run(s, arguments, y, z, false, &warnings, &cme);
    if (status == EXIT_DONE && progress_interrupted())
        status = message_fail(EXIT_WORK, "interrupted; nothing was written");
    status = ranks_agree(status);
    if (status == EXIT_DONE && ranks_first()) {
        status = model_save(cme, y, z, model);
        if (status == EXIT_DONE && !quiet) notes_print(&warnings);
        if (status == EXIT_DONE && args_given(arguments, OPT_JSON))
            status = print_json(arguments, cme, group, &warnings, dropped);
        else if (status == EXIT_DONE && !quiet)
            print_text(arguments, cme, group);
    }
    notes_free(&warnings);
    circe_cme_destroy(cme);
    return status;
}

/* Every rank has read the files for itself; what follows relies on their being the same. */
static int compare_ranks(const input *y, const input *z) {
    const input *const group[] = {y, z};
    const char *const labels[] = {variable_label(VARIABLE_Y), variable_label(VARIABLE_Z)};
    circe_status same = CIRCE_OK;
    for (int i = 0; i < 2 && same == CIRCE_OK; i++) {
        char *what = small_format("%s (%s)", labels[i], input_source(group[i]));
        same = cluster_same_data(&group[i]->values, what);
        free(what);
    }
    return same == CIRCE_OK ? EXIT_DONE : message_library(same, NULL);
}

/* Refuses what cannot fit into memory before anything is read. `rows` is what --rows asks for. */
static int foresee(const session *s, const args *arguments, int64_t *rows) {
    static const variable variables[] = {VARIABLE_Y, VARIABLE_Z};
    int64_t foreseen = -1;
    int status = args_rows_wanted(arguments, rows);
    if (status == EXIT_DONE) status = args_inputs_foresee(arguments, s->context, variables, 2, &foreseen);
    if (status != EXIT_DONE || foreseen < 0 || ranks_several()) return status;
    if (*rows > 0 && *rows < foreseen) foreseen = *rows;
    double n = (double)foreseen, bytes = 8.0 * 2.0 * n * n, available = circe_context_memory(s->context);
    bool dense = args_choice(arguments, OPT_METHOD) == spec_word_index(spec_options[OPT_METHOD].words, "dense");
    if (!dense || bytes <= available) return EXIT_DONE;
    message_note("a dense fit of %.0f rows needs about %.1f GB, and %.1f GB are available", n, bytes / 1e9,
                 available / 1e9);
    message_hint("--rows %" PRId64 " takes as many as fit; --method lowrank takes all of them where y is smooth enough",
                 circe_rows_at_once(s->context, 16.0, 0.0));
    return EXIT_WORK;
}

int cmd_fit(const args *arguments) {
    session s = {0};
    input y = {0}, z = {0};
    input *const group[] = {&y, &z};
    int64_t dropped = 0, rows = 0;
    int status =
        ranks_first() ? message_refused(path_check_writable("-o", args_text(arguments, OPT_OUTPUT_MODEL))) : EXIT_DONE;
    if (status == EXIT_DONE) status = session_open(arguments, &s);
    if (status == EXIT_DONE) status = foresee(&s, arguments, &rows);
    if (status == EXIT_DONE) status = args_input_read(arguments, VARIABLE_Y, false, &y);
    if (status == EXIT_DONE) status = args_input_read(arguments, VARIABLE_Z, false, &z);
    if (status == EXIT_DONE) status = args_check_categories(arguments, group, 2);
    if (status == EXIT_DONE) status = args_inputs_check(arguments, group, 2, 2, &dropped);
    if (status == EXIT_DONE && rows > 0) status = args_inputs_sample(arguments, group, 2, rows, 2);
    if (status == EXIT_DONE && dropped > 0 && !args_given(arguments, OPT_QUIET))
        message_note("left out %" PRId64 " rows with missing cells", dropped);
    status = ranks_agree(status);
    if (status == EXIT_DONE) status = compare_ranks(&y, &z);
    if (status == EXIT_DONE) status = fit_and_save(&s, arguments, &y, &z, dropped);
    input_free(&y);
    input_free(&z);
    session_close(&s);
    return status;
}
