/* The report library: what a person's texts become in CSV, SVG and HTML, and what happens where nothing can be drawn or
 * written. */
#include <ctype.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report/report.h"
#include "tests/support.h"

static const char hostile[] = "a <b> & 'c' \"d\" `e` σ² @f $(g) {h}_i";

/* The file's text; belongs to the test. */
static char *read_whole(const char *path) {
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    fseek(in, 0, SEEK_END);
    long bytes = ftell(in);
    rewind(in);
    char *text = test_memory((size_t)bytes + 1);
    assert_int_equal(fread(text, 1, (size_t)bytes, in), bytes);
    fclose(in);
    return text;
}

static int64_t count(const char *text, const char *what) {
    int64_t n = 0;
    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what)) n++;
    return n;
}

/* ---- well-formed tags -------------------------------------------------------------------------------------------- */

typedef struct tags {
    char open[64][32];
    int depth;
} tags;

/* One tag from behind its '<'; returns what follows its '>'. */
static const char *read_tag(tags *t, const char *at) {
    char name[32] = "";
    bool closing = *at == '/', quoted = false, empty = false;
    if (closing) at++;
    size_t length = strcspn(at, " \t\n/>");
    assert_true(length > 0 && length < sizeof name);
    memcpy(name, at, length);
    for (at += length; *at != '\0' && (quoted || *at != '>'); at++) {
        assert_true(quoted || *at != '<');
        if (*at == '"') quoted = !quoted;
        if (!quoted) empty = *at == '/';
    }
    assert_int_equal(*at, '>');
    if (closing) {
        assert_true(t->depth > 0);
        assert_string_equal(t->open[--t->depth], name);
    } else if (!empty && strcmp(name, "meta") != 0) {
        assert_true(t->depth < 64);
        strcpy(t->open[t->depth++], name);
    }
    return at + 1;
}

/* Every tag is closed in order, and '&' only begins an entity. */
static void check_markup(const char *text) {
    tags t = {.depth = 0};
    for (const char *at = text; *at != '\0';) {
        if (strncmp(at, "<!", 2) == 0 || strncmp(at, "<?", 2) == 0)
            at = strchr(at, '>') + 1;
        else if (*at == '<')
            at = read_tag(&t, at + 1);
        else {
            if (*at == '&') assert_non_null(memchr(at, ';', 8));
            at++;
        }
    }
    assert_int_equal(t.depth, 0);
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

static void csv_quotes_what_needs_it(void **state) {
    (void)state;
    const char *const columns[] = {"plain", "with, comma", "with \"quote\""};
    const char *const cells[] = {"1", "a,b", "say \"x\"", "line\nend", NULL, "cr\r"};
    report_table table = {.columns = columns, .n_columns = 3, .n_rows = 2, .cells = cells, .marked = -1};
    const char *path = test_path("t.csv");
    assert_int_equal(report_write_csv(path, &table), CIRCE_OK);
    assert_string_equal(read_whole(path),
                        "plain,\"with, comma\",\"with \"\"quote\"\"\"\r\n"
                        "1,\"a,b\",\"say \"\"x\"\"\"\r\n"
                        "\"line\nend\",,\"cr\r\"\r\n");
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static const double xs[] = {0.0, 0.1, 0.2, 0.4}, ys[] = {1e-3, 0.0, NAN, 1.0};
static const double lows[] = {1e-4, 1e-3, 1e-3, 0.5}, highs[] = {1e-2, 1e-1, 1e-1, 2.0};

static report_figure sample(const char *name) {
    static const report_series first[] = {
        {.label = hostile,
         .n = 4,
         .x = xs,
         .y = ys,
         .low = lows,
         .high = highs,
         .style = REPORT_LINE_POINTS,
         .colour = 0},
        {.label = "points", .n = 4, .x = xs, .y = highs, .style = REPORT_POINTS, .colour = 1},
        {.label = "level", .n = 1, .x = xs, .y = highs, .style = REPORT_HORIZONTAL, .colour = -1, .dashed = true},
    };
    static const report_series one[] = {{.label = "points", .n = 1, .x = xs, .y = lows, .style = REPORT_POINTS}};
    static const report_panel panels[] = {
        {.title = hostile,
         .x_label = "x 'quoted'",
         .y_label = "y\nsecond line",
         .log_y = true,
         .series = first,
         .n_series = 3},
        {.title = "one point", .series = one, .n_series = 1},
        {.title = "nothing at all", .log_x = true},
    };
    return (report_figure){.name = name, .caption = hostile, .panels = panels, .n_panels = 3, .columns = 2};
}

static bool has_gnuplot(void) { return system("gnuplot --version > /dev/null 2>&1") == 0; }

static void figure_is_drawn_with_its_script_and_data(void **state) {
    (void)state;
    if (!has_gnuplot()) test_skip("gnuplot is not installed");
    report_figure figure = sample("figure");
    bool drawn = false;
    assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    assert_true(drawn);
    char *svg = read_whole(test_path("figure.svg")), *script = read_whole(test_path("figure.gp"));
    check_markup(svg);
    assert_non_null(strstr(svg, "a &lt;b> &amp; 'c' \"d\" `e` σ² @f $(g) {h}_i"));
    assert_non_null(strstr(svg, "nothing at all"));
    assert_non_null(strstr(script, "''c''"));
    /* a legend entry a label, once although two panels have "points": as text, and as the name of the curve */
    assert_int_equal(count(svg, "<text>points</text>"), 1);
    /* a value that a logarithm cannot show leaves a gap like NaN */
    assert_int_equal(count(read_whole(test_path("figure.dat")), "NaN"), 2);
    /* the script stands on its own */
    assert_int_equal(unlink(test_path("figure.svg")), 0);
    char command[512];
    snprintf(command, sizeof command, "cd '%s' && gnuplot figure.gp", test_directory());
    assert_int_equal(system(command), 0);
    assert_string_equal(read_whole(test_path("figure.svg")), svg);
}

/* 0.66 to 0.74 holds no number that a logarithmic axis writes, and 0.005, 0.01, ... run into each other in a third of
 * the width. */
static void axes_have_numbers_that_fit(void **state) {
    static const double loss[] = {0.74, 0.66}, share[] = {0.002, 0.046};
    static const report_series s = {.label = "loss", .n = 2, .x = share, .y = loss, .style = REPORT_LINE};
    static const report_panel panels[] = {{.title = "1", .log_y = true, .series = &s, .n_series = 1},
                                          {.title = "2", .log_y = true, .series = &s, .n_series = 1},
                                          {.title = "3", .log_y = true, .series = &s, .n_series = 1}};
    (void)state;
    for (int n = 1; n <= 3; n += 2) {
        report_figure figure = {.name = "axes", .panels = panels, .n_panels = n, .columns = 3};
        bool drawn;
        assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
        const char *script = read_whole(test_path("axes.gp"));
        assert_int_equal(count(script, "\nset logscale y"), 0);
        assert_int_equal(count(script, "set ytics norotate autofreq"), n);
        assert_int_equal(count(script, "set xtics norotate 0.02\n"), n > 2 ? n : 0);
    }
}

/* 200, 500, ... 20000: seven numbers, which a third of the width has no room for. */
static void logarithmic_axes_have_numbers_that_fit(void **state) {
    static const double gamma[] = {200, 23000}, error[] = {0.6, 0.7};
    static const report_series s = {.label = "error", .n = 2, .x = gamma, .y = error, .style = REPORT_LINE};
    static const report_panel panels[] = {{.title = "1", .log_x = true, .series = &s, .n_series = 1},
                                          {.title = "2", .log_x = true, .series = &s, .n_series = 1},
                                          {.title = "3", .log_x = true, .series = &s, .n_series = 1}};
    (void)state;
    for (int n = 1; n <= 3; n += 2) {
        report_figure figure = {.name = "decades", .panels = panels, .n_panels = n, .columns = 3};
        bool drawn;
        assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
        const char *script = read_whole(test_path("decades.gp"));
        assert_int_equal(count(script, "'10000' 10000"), n);
        assert_int_equal(count(script, "'5000' 5000"), n == 1);
    }
}

/* Panels of 0.001 to 2 and of 10 to 20: by themselves, or all from 0.001 to 20. */
static void panels_can_share_a_range(void **state) {
    static const double small[] = {1e-3, 2.0}, large[] = {10.0, 20.0}, at[] = {1.0, 2.0};
    static const report_series low = {.label = "low", .n = 2, .x = at, .y = small, .style = REPORT_LINE};
    static const report_series high = {.label = "high", .n = 2, .x = at, .y = large, .style = REPORT_HORIZONTAL};
    static const report_panel panels[] = {{.title = "low", .log_y = true, .series = &low, .n_series = 1},
                                          {.title = "high", .log_y = true, .series = &high, .n_series = 1}};
    (void)state;
    for (int same = 0; same < 2; same++) {
        report_figure figure = {.name = "shared", .panels = panels, .n_panels = 2, .columns = 2, .same_y = same == 1};
        bool drawn;
        double ends[2][2];
        assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
        const char *script = read_whole(test_path("shared.gp"));
        for (int p = 0; p < 2; p++) {
            script = strstr(script, "set yrange [");
            assert_non_null(script);
            assert_int_equal(sscanf(script++, "set yrange [%lf:%lf]", &ends[p][0], &ends[p][1]), 2);
        }
        assert_true(ends[0][0] < 1e-3 && ends[0][0] > 5e-4 && ends[1][1] > 20.0 && ends[1][1] < 40.0);
        assert_int_equal(ends[0][1] == ends[1][1] && ends[0][0] == ends[1][0], same);
    }
}

static void figure_without_gnuplot_keeps_script_and_data(void **state) {
    (void)state;
    report_figure figure = sample("missing");
    bool drawn = true;
    char *path = strdup(getenv("PATH"));
    FILE *old = fopen(test_path("missing.svg"), "w"); /* of an earlier time: it must not pass for this figure */
    fputs("<svg></svg>", old);
    fclose(old);
    setenv("PATH", test_directory(), 1);
    bool written = report_draw(&figure, test_directory(), &drawn) == CIRCE_OK;
    setenv("PATH", path, 1);
    free(path);
    assert_true(written);
    assert_false(drawn);
    assert_int_equal(access(test_path("missing.gp"), R_OK), 0);
    assert_int_equal(access(test_path("missing.dat"), R_OK), 0);
    assert_int_not_equal(access(test_path("missing.svg"), R_OK), 0);
    report *page = report_begin("t", NULL);
    report_add_figure(page, &figure, test_directory());
    assert_int_equal(report_end(page, test_path("page.html")), CIRCE_OK);
    char *html = read_whole(test_path("page.html"));
    check_markup(html);
    assert_non_null(strstr(html, "gnuplot missing.gp"));
}

/* A gnuplot that fails or writes half a file leaves no SVG. */
static void figure_of_a_failing_gnuplot_is_not_drawn(void **state) {
    (void)state;
    report_figure figure = sample("failing");
    bool drawn = true;
    char *path = strdup(getenv("PATH")), longer[4096];
    FILE *fake = fopen(test_path("gnuplot"), "w");
    fputs("#!/bin/sh\neval \"$3\"\necho '<svg>' > \"$output\"\nexit 3\n", fake); /* gnuplot -d -e output='...' */
    fclose(fake);
    chmod(test_path("gnuplot"), 0755);
    snprintf(longer, sizeof longer, "%s:%s", test_directory(), path);
    setenv("PATH", longer, 1);
    bool written = report_draw(&figure, test_directory(), &drawn) == CIRCE_OK;
    setenv("PATH", path, 1);
    free(path);
    assert_true(written);
    assert_false(drawn);
    assert_int_not_equal(access(test_path("failing.svg"), R_OK), 0);
}

static void what_cannot_be_written_is_said(void **state) {
    (void)state;
    report_figure figure = sample("figure");
    bool drawn = true;
    assert_int_not_equal(report_draw(&figure, test_path("no-such-folder"), &drawn), CIRCE_OK);
    assert_false(drawn);
    assert_non_null(strstr(circe_last_error(), "no-such-folder/figure.dat"));
    assert_non_null(strstr(circe_last_error(), "No such file"));
    figure.name = "../elsewhere";
    assert_int_not_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    assert_non_null(strstr(circe_last_error(), "'../elsewhere'"));
    const char *const columns[] = {"a"};
    report_table table = {.columns = columns, .n_columns = 1, .marked = -1};
    assert_int_not_equal(report_write_csv(test_path("no-such-folder/t.csv"), &table), CIRCE_OK);
    assert_non_null(strstr(circe_last_error(), "no-such-folder/t.csv"));
    assert_int_not_equal(report_end(report_begin("t", NULL), test_path("no-such-folder/r.html")), CIRCE_OK);
    assert_non_null(strstr(circe_last_error(), "no-such-folder/r.html"));
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static char *make_page(const report_figure *figure, const char *text) {
    const char *const columns[] = {text, "number"};
    const char *const cells[] = {text, "1.5", NULL, "2"};
    const bool numeric[] = {false, true};
    report_table table = {.caption = text,
                          .columns = columns,
                          .n_columns = 2,
                          .n_rows = 2,
                          .cells = cells,
                          .numeric = numeric,
                          .marked = 1};
    report *page = report_begin(text, text);
    report_heading(page, text);
    report_text(page, "%s and %d%%", text, 7);
    report_note(page, "%s", text);
    report_add_table(page, &table);
    if (figure != NULL) report_add_figure(page, figure, test_directory());
    if (figure != NULL) report_add_figure(page, figure, test_directory());
    report_details(page, text, text);
    report_fact(page, text, "%s", text);
    assert_int_equal(report_end(page, test_path("report.html")), CIRCE_OK);
    return read_whole(test_path("report.html"));
}

static void page_escapes_everything(void **state) {
    (void)state;
    char *html = make_page(NULL, "<script>alert('1')</script> & \"q\"");
    check_markup(html);
    assert_int_equal(count(html, "<script"), 1); /* the page's own */
    assert_null(strstr(html, "alert('1')"));
    /* title, h1, subtitle, heading, text, note; caption, label of the box, column, cell; summary, text; fact twice */
    assert_int_equal(count(html, "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt; &amp; &quot;q&quot;"), 14);
    assert_non_null(strstr(html, "and 7%</p>"));
    assert_int_equal(count(html, "<tr class=\"marked\"><td></td><td class=\"number\">2</td></tr>"), 1);
}

/* Cells that begin with a sign, and a list of the headings where there are four. */
static void page_has_signs_and_contents(void **state) {
    (void)state;
    for (int headings = 3; headings <= 4; headings++) {
        static const char *const columns[] = {"verdict"}, *const cells[] = {"✓ yes", "✗ no", "? open", "plain"};
        report_table table = {
            .caption = "", .columns = columns, .n_columns = 1, .n_rows = 4, .cells = cells, .marked = -1};
        report *page = report_begin("title", NULL);
        for (int i = 0; i < headings; i++) report_heading(page, i == 0 ? "a & b" : "more");
        report_add_table(page, &table);
        assert_int_equal(report_end(page, test_path("signs.html")), CIRCE_OK);
        char *html = read_whole(test_path("signs.html"));
        check_markup(html);
        assert_int_equal(count(html, "<td class=\"good\">"), 1);
        assert_int_equal(count(html, "<td class=\"bad\">"), 1);
        assert_int_equal(count(html, "<td class=\"open\">"), 1);
        assert_int_equal(count(html, "<td>"), 1);
        assert_int_equal(count(html, "<li><a href=\"#part-1\">a &amp; b</a></li>"), headings == 4);
        assert_int_equal(count(html, "id=\"part-1\""), 1);
    }
}

/* Categories by name, which no line joins. */
static void figure_names_categories(void **state) {
    (void)state;
    static const char *const names[] = {"it's", "a name that is longer than an axis has room for"};
    const double x[] = {0, 1}, y[] = {1, 2}, low[] = {0, 1}, high[] = {2, 3};
    report_series series = {.label = "s", .n = 2, .x = x, .y = y, .low = low, .high = high, .style = REPORT_INTERVALS};
    report_panel panel = {.x_label = "x", .x_names = names, .n_x_names = 2, .series = &series, .n_series = 1};
    report_figure figure = {.name = "names", .caption = "what it shows", .panels = &panel, .n_panels = 1, .columns = 1};
    bool drawn = false;
    assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    char *script = read_whole(test_path("names.gp"));
    assert_non_null(strstr(script, "'it''s' 0"));
    assert_non_null(strstr(script, "'a name that is lon…' 1"));
    assert_non_null(strstr(script, "yerrorbars"));
    assert_null(strstr(script, "with lines"));
    assert_non_null(strstr(script, "set xrange [-0.5:1.5]"));
    if (!drawn) return;
    report *page = report_begin("title", NULL);
    report_add_figure(page, &figure, test_directory());
    assert_int_equal(report_end(page, test_path("names.html")), CIRCE_OK);
    char *html = read_whole(test_path("names.html"));
    assert_non_null(strstr(html, "<svg role=\"img\" aria-label=\"what it shows\""));
    assert_null(strstr(html, "gnuplot_plot"));
    assert_null(strstr(html, "GNUPLOT"));
    assert_int_equal(count(html, "data-curve=\"s\""), 3); /* bars, points, legend */
    assert_int_equal(count(html, "class=\"legend\""), 1);
    assert_int_equal(count(html, "<title>s: it&#39;s, 1 (0 to 2)</title>"), 1);
    assert_int_equal(count(html, "<title>s: a name that is longer than an axis has room for, 2 (1 to 3)</title>"), 1);
}

/* gnuplot reads the names along an axis as formats of numbers. */
static void figure_names_percentages(void **state) {
    (void)state;
    static const char *const names[] = {"100%", "50% to %g", "%s"};
    const double x[] = {0, 1, 2}, y[] = {1, 2, 3};
    report_series series = {.label = "s", .n = 3, .x = x, .y = y, .style = REPORT_POINTS};
    report_panel panel = {.x_label = "%", .x_names = names, .n_x_names = 3, .series = &series, .n_series = 1};
    report_figure figure = {.name = "percent", .caption = "", .panels = &panel, .n_panels = 1, .columns = 1};
    bool drawn = false;
    assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    assert_int_equal(drawn, has_gnuplot());
    if (!drawn) return;
    char *svg = read_whole(test_path("percent.svg"));
    assert_non_null(strstr(svg, ">100%<"));
    assert_non_null(strstr(svg, ">50% to %g<"));
    assert_non_null(strstr(svg, ">%s<"));
}

/* Titles and names that look like what gnuplot writes, and bytes that are no text, stay in their own panels. */
static void figure_keeps_strange_texts(void **state) {
    (void)state;
    if (!has_gnuplot()) test_skip("gnuplot is not installed");
    static const char *const names[] = {"gnuplot_plot_1z", "\xff\xc3"};
    const double x[] = {0, 1}, y[] = {1, 2};
    report_series series = {.label = "s", .n = 2, .x = x, .y = y, .style = REPORT_POINTS};
    report_panel panels[] = {
        {.title = "gnuplot_plot_1b",
         .x_label = "x",
         .x_names = names,
         .n_x_names = 2,
         .series = &series,
         .n_series = 1},
        {.title = "</text><g id=\"gnuplot_plot_1a\">", .x_label = "\xff|", .series = &series, .n_series = 1}};
    report_figure figure = {.name = "strange", .caption = "", .panels = panels, .n_panels = 2, .columns = 2};
    bool drawn = false;
    assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    assert_true(drawn);
    report *page = report_begin("title", NULL);
    report_add_figure(page, &figure, test_directory());
    assert_int_equal(report_end(page, test_path("strange.html")), CIRCE_OK);
    char *html = read_whole(test_path("strange.html")), *second = strstr(html, "aria-label=\"&lt;/text&gt;");
    check_markup(html);
    assert_non_null(second);
    char *title = strstr(html, ">gnuplot_plot_1b<");
    assert_true(title != NULL && title < second);
    assert_true(strstr(html, ">gnuplot_plot_1z<") != NULL && strstr(html, ">gnuplot_plot_1z<") < second);
    assert_non_null(strstr(second, ">&lt;/text>&lt;g id="));
    assert_null(strchr(html, '\xff'));
}

/* A point that is not drawn has no value, and the next keeps its own; a cloud tells none. */
static void figure_tells_values(void **state) {
    (void)state;
    double x[200], y[200];
    for (int i = 0; i < 200; i++) x[i] = i, y[i] = i == 1 ? (double)NAN : i;
    const report_series few = {.label = "few", .n = 3, .x = x, .y = y, .style = REPORT_LINE_POINTS},
                        many = {.label = "many", .n = 200, .x = x, .y = y, .style = REPORT_POINTS, .colour = 1};
    const report_panel panels[] = {{.x_label = "x", .series = &many, .n_series = 1},
                                   {.x_label = "x", .series = &few, .n_series = 1}};
    report_figure figure = {.name = "told", .caption = "c", .panels = panels, .n_panels = 2, .columns = 2};
    bool drawn = false;
    assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    if (!drawn) return;
    report *page = report_begin("title", NULL);
    report_add_figure(page, &figure, test_directory());
    assert_int_equal(report_end(page, test_path("told.html")), CIRCE_OK);
    char *html = read_whole(test_path("told.html"));
    check_markup(html);
    assert_non_null(strstr(html, "viewBox=\"0 0 420 330\""));
    assert_non_null(strstr(html, "viewBox=\"420 0 420 330\""));
    const char *second = strstr(html, "viewBox=\"420 0");
    assert_true(strstr(html, "data-curve=\"many\"") < second && strstr(html, "data-curve=\"few\"") > second);
    assert_int_equal(count(html, "<title>few: 0, 0</title>"), 1);
    assert_int_equal(count(html, "<title>few: 2, 2</title>"), 1);
    assert_int_equal(count(html, "<title>few: "), 2);
    assert_int_equal(count(html, "<title>many"), 0);
}

static void page_asks_for_nothing(void **state) {
    (void)state;
    char *html = make_page(NULL, "plain");
    assert_null(strstr(html, "http"));
    assert_null(strstr(html, "src="));
    assert_null(strstr(html, "@import"));
    assert_non_null(strstr(html, "prefers-color-scheme:dark"));
    assert_non_null(strstr(html, "width=device-width"));
}

/* Bytes that are no UTF-8 and control characters, as the columns of a file may hold. */
static void page_replaces_what_is_no_text(void **state) {
    (void)state;
    char *html = make_page(NULL, "\xff|\xc3|\xc0\xaf|\xed\xa0\x80|\x01\x7f|\xe2\x82\xac|`code & more`");
    check_markup(html);
    assert_non_null(strstr(html,
                           "<p>\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                           "||\xe2\x82\xac|<code>code &amp; more</code> and"));
}

/* ids of two figures in one page are told apart by the figures' names. */
static void page_holds_the_figures_themselves(void **state) {
    (void)state;
    if (!has_gnuplot()) test_skip("gnuplot is not installed");
    report_figure figure = sample("inlined");
    bool drawn = false;
    assert_int_equal(report_draw(&figure, test_directory(), &drawn), CIRCE_OK);
    char *html = make_page(&figure, hostile);
    check_markup(html);
    /* one for every panel, so that a phone shows them below each other, and a sample for every curve */
    assert_int_equal(count(html, "<svg role"), 2 * figure.n_panels);
    assert_int_equal(count(html, "<svg viewBox=\"0 0 30 12\""), count(html, "class=\"legend\""));
    assert_int_equal(count(html, "id='inlined-gpPt6'"), 2); /* defined once a figure, which is there twice */
    assert_null(strstr(html, "<?xml"));
    assert_non_null(strstr(html, "xlink:href='#inlined-gpPt6'"));
    assert_null(strstr(html, "#gpPt"));
    assert_null(strstr(html, "id='gpPt"));
    assert_null(strstr(html, "src="));
}

static void page_refuses_an_svg_with_a_script(void **state) {
    (void)state;
    report_figure figure = sample("scripted");
    FILE *svg = fopen(test_path("scripted.svg"), "w");
    fputs("<svg xmlns=\"http://www.w3.org/2000/svg\"><SCRIPT>1</SCRIPT></svg>", svg);
    fclose(svg);
    char *html = make_page(&figure, "plain");
    check_markup(html);
    assert_null(strstr(html, "<SCRIPT"));
    assert_non_null(strstr(html, "gnuplot scripted.gp"));
}

TEST_MAIN("report", TEST(csv_quotes_what_needs_it), TEST(figure_is_drawn_with_its_script_and_data),
          TEST(axes_have_numbers_that_fit), TEST(logarithmic_axes_have_numbers_that_fit),
          TEST(panels_can_share_a_range), TEST(figure_without_gnuplot_keeps_script_and_data),
          TEST(figure_of_a_failing_gnuplot_is_not_drawn), TEST(what_cannot_be_written_is_said),
          TEST(page_escapes_everything), TEST(page_has_signs_and_contents), TEST(figure_names_categories),
          TEST(figure_names_percentages), TEST(figure_keeps_strange_texts), TEST(figure_tells_values),
          TEST(page_asks_for_nothing), TEST(page_replaces_what_is_no_text), TEST(page_holds_the_figures_themselves),
          TEST(page_refuses_an_svg_with_a_script))
