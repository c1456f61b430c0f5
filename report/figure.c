/* Figures: a gnuplot script and its data, beside the SVG that gnuplot makes of them, so that a person can change both
 * and draw again.
 *
 * Panels stand side by side in rows, all of one size, with one strip below that explains the curves of all panels: the
 * same label is the same curve everywhere. Ranges are computed here rather than left to gnuplot, which stops at panels
 * without points or with a single value. Colours are those of Okabe and Ito, told apart by colour-blind readers, each
 * with a point shape of its own. Texts stand in single quotes, where gnuplot replaces nothing. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/owned.h"
#include "circe/status.h"
#include "core/core.h"
#include "files/atomic.h"
#include "report/report_parts.h"

/* Panels are as wide as a phone allows without making letters small. */
enum {
    PANEL_WIDTH = 420,
    PANEL_HEIGHT = 330,
    LEGEND_ROW = 26,
    LEGEND_PIXELS_A_LETTER = 8,
    LEGEND_PIXELS_A_SAMPLE = 70
};

static const report__mark palette[] = {{"#0072b2", 7, "M11 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", false},
                                       {"#d55e00", 5, "M11.5 2.5h7v7h-7z", false},
                                       {"#009e73", 9, "M15 1l5 9h-10z", false},
                                       {"#cc79a7", 13, "M15 1l5 5-5 5-5-5z", false},
                                       {"#e69f00", 11, "M15 11l5-9h-10z", false},
                                       {"#56b4e9", 15, "M15 1l5 4-2 6h-6l-2-6z", false},
                                       {"#808080", 6, "M11 6a4 4 0 1 0 8 0a4 4 0 1 0-8 0z", true}};

enum { N_COLOURS = sizeof palette / sizeof *palette };

/* Any number is a colour; negative ones are the grey of lines that are no method's. */
const report__mark *report__mark_of(const report_series *s) {
    return &palette[s->colour < 0 ? N_COLOURS - 1 : s->colour % N_COLOURS];
}

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

typedef struct range {
    double low, high;
    bool log;
} range;

static bool can_show(const range *r, double value) { return isfinite(value) && (!r->log || value > 0); }

static void include(range *r, double value) {
    if (!can_show(r, value)) return;
    if (!(r->low <= value)) r->low = value; /* NaN: none yet */
    if (!(r->high >= value)) r->high = value;
}

/* A little room on both sides; any range at all if there are no points, or one. */
static void widen(range *r) {
    const double share = 0.05;
    if (isnan(r->low)) *r = (range){r->log ? 0.1 : 0.0, 1.0, r->log};
    if (r->log) {
        double room = r->high > r->low ? pow(r->high / r->low, share) : 2.0;
        r->low /= room, r->high *= room;
    } else {
        double room = r->high > r->low ? share * (r->high - r->low) : r->low != 0 ? 0.5 * fabs(r->low) : 1.0;
        r->low -= room, r->high += room;
    }
}

static void include_heights(range *y, const report_panel *panel) {
    for (int64_t k = 0; k < panel->n_series; k++) {
        const report_series *s = &panel->series[k];
        for (int64_t i = 0; i < s->n; i++) {
            include(y, s->y[i]);
            if (s->low != NULL) include(y, s->low[i]);
            if (s->high != NULL) include(y, s->high[i]);
        }
    }
}

static void include_widths(range *x, const report_panel *panel) {
    for (int64_t k = 0; k < panel->n_series; k++)
        for (int64_t i = 0; i < panel->series[k].n && panel->series[k].style != REPORT_HORIZONTAL; i++)
            include(x, panel->series[k].x[i]);
}

/* Within half a decade a logarithmic axis may have no number that is 1, 2 or 5 times a power of ten, and looks like a
 * linear one. */
static bool is_narrow(const range *r) { return r->log && r->high > r->low && r->high < 3.0 * r->low; }

static void find_height(const report_figure *figure, const report_panel *panel, bool log, range *y) {
    *y = (range){NAN, NAN, log};
    if (figure->same_y)
        for (int64_t p = 0; p < figure->n_panels; p++) include_heights(y, &figure->panels[p]);
    else
        include_heights(y, panel);
    if (is_narrow(y)) find_height(figure, panel, false, y);
}

static void find_ranges(const report_figure *figure, const report_panel *panel, range *x, range *y) {
    *x = (range){NAN, NAN, panel->log_x};
    include_widths(x, panel);
    find_height(figure, panel, panel->log_y, y);
    widen(x);
    widen(y);
    if (panel->n_x_names > 0) *x = (range){-0.5, (double)panel->n_x_names - 0.5, false};
}

/* ---- data -------------------------------------------------------------------------------------------------------- */

static void put_number(FILE *out, const range *r, double value) {
    if (can_show(r, value))
        fprintf(out, " %.9g", value);
    else
        fputs(" NaN", out);
}

static void put_series(FILE *out, const report_series *s, const range *x, const range *y) {
    bool band = s->low != NULL && s->high != NULL;
    if (s->style == REPORT_HORIZONTAL) {
        double level = s->n > 0 ? s->y[0] : NAN;
        fprintf(out, " %.9g", x->low);
        put_number(out, y, level);
        fprintf(out, "\n %.9g", x->high);
        put_number(out, y, level);
        fputc('\n', out);
        return;
    }
    if (s->n == 0) fputs(" NaN NaN\n", out); /* an empty block would not count */
    for (int64_t i = 0; i < s->n; i++) {
        put_number(out, x, s->x[i]);
        put_number(out, y, s->y[i]);
        if (band) put_number(out, y, s->low[i]);
        if (band) put_number(out, y, s->high[i]);
        fputc('\n', out);
    }
}

/* On one line: the names of curves stand in comments. */
static void put_comment(FILE *out, const char *text) {
    for (const char *c = text; *c != '\0'; c++) fputc(iscntrl((unsigned char)*c) ? ' ' : *c, out);
}

/* One block a curve, in order; gnuplot counts them as index 0, 1, ... */
static void put_data(FILE *out, const report_figure *figure) {
    fprintf(out, "# Data of %s.gp: one block per curve, with x, y and, for a band, its ends.\n", figure->name);
    for (int64_t p = 0; p < figure->n_panels; p++) {
        const report_panel *panel = &figure->panels[p];
        range x, y;
        find_ranges(figure, panel, &x, &y);
        for (int64_t k = 0; k < panel->n_series; k++) {
            fputs("\n\n# ", out);
            put_comment(out, panel->title != NULL ? panel->title : "");
            fputs(": ", out);
            put_comment(out, panel->series[k].label != NULL ? panel->series[k].label : "");
            fputc('\n', out);
            put_series(out, &panel->series[k], &x, &y);
        }
    }
}

/* ---- script ------------------------------------------------------------------------------------------------------ */

/* `doubled`: letters of which gnuplot wants two for one. Bytes that are no UTF-8 would come into the page with its SVG.
 */
static void put_between_quotes(FILE *out, const char *text, const char *doubled) {
    const char *c = text != NULL ? text : "", *end = c + strlen(c);
    uint32_t code;
    fputc('\'', out);
    while (c < end) {
        size_t bytes = circe__utf8_bytes(c, (size_t)(end - c), &code);
        if (strchr(doubled, *c) != NULL) fputc(*c, out);
        if (bytes == 0)
            fputs("\xef\xbf\xbd", out); /* U+FFFD */
        else if (iscntrl((unsigned char)*c))
            fputc(' ', out);
        else
            fwrite(c, 1, bytes, out);
        c += bytes > 0 ? bytes : 1;
    }
    fputc('\'', out);
}

static void put_quoted(FILE *out, const char *text) { put_between_quotes(out, text, "'"); }

/* "with ... lc ..." of a curve. */
static void put_style(FILE *out, const report_series *s) {
    static const char *const with[] = {[REPORT_LINE] = "lines",
                                       [REPORT_POINTS] = "points",
                                       [REPORT_LINE_POINTS] = "linespoints",
                                       [REPORT_HORIZONTAL] = "lines",
                                       [REPORT_INTERVALS] = "points"};
    const report__mark *mark = report__mark_of(s);
    fprintf(out, "with %s lc rgb '%s'", with[s->style], mark->rgb);
    bool points = s->style == REPORT_POINTS || s->style == REPORT_INTERVALS;
    if (!points) fprintf(out, " lw 2 dt %d", s->dashed ? 2 : 1);
    if (points || s->style == REPORT_LINE_POINTS) fprintf(out, " pt %d ps 0.8", mark->point);
}

/* Numbers along a logarithmic axis: every power of ten, or every second, ... of many; 2 and 5 as well where there are
 * few and the panel has room for them, since an axis within one decade would have no number at all. */
static void put_log_tics(FILE *out, char axis, const range *r, bool narrow) {
    double decades = log10(r->high / r->low), few = narrow ? 1.5 : 2.5;
    int stride = (int)fmax(1.0, ceil(decades / 7.0)), first = (int)floor(log10(r->low));
    const char *between = "";
    fprintf(out, "set %ctics (", axis);
    for (int k = first; k <= (int)ceil(log10(r->high)); k++)
        for (int digit = 1; digit < 10; digit++) {
            double value = digit * pow(10.0, k);
            bool major = digit == 1 && k % stride == 0;
            if (value < r->low || value > r->high) continue;
            if (major || (decades < few && (digit == 2 || digit == 5)))
                fprintf(out, "%s'%g' %.6g", between, value, value);
            else if (stride == 1)
                fprintf(out, "%s'' %.6g 1", between, value);
            else
                continue;
            between = ", ";
        }
    fputs(")\n", out);
}

/* Whether names at 0, 1, ... would not fit beside each other. */
static bool are_aslant(const report_panel *panel) {
    enum { LETTERS_OF_AN_AXIS = 36 };
    size_t letters = 0;
    for (int64_t k = 0; k < panel->n_x_names; k++) letters += strlen(panel->x_names[k]) + 2;
    return letters > LETTERS_OF_AN_AXIS;
}

/* Names at 0, 1, ...: cut where they are long, and aslant where they would not fit beside each other. To gnuplot they
 * are formats of numbers: a single % would be read as one, or end the drawing. */
static void put_names(FILE *out, const report_panel *panel) {
    enum { MOST_LETTERS = 18 };
    fprintf(out, "set xtics %s (", are_aslant(panel) ? "rotate by -30" : "norotate");
    for (int64_t k = 0; k < panel->n_x_names; k++) {
        OWNED char *name = strdup(panel->x_names[k]);
        if (name == NULL) continue;
        size_t end = strlen(name) > MOST_LETTERS ? MOST_LETTERS : strlen(name);
        while (end > 0 && (name[end] & 0xC0) == 0x80) end--; /* not within a letter of UTF-8 */
        fprintf(out, "%s", k > 0 ? ", " : "");
        bool whole = name[end] == '\0';
        name[end] = '\0';
        OWNED char *shown = NULL;
        if (asprintf(&shown, "%s%s", name, whole ? "" : "…") >= 0) put_between_quotes(out, shown, "'%");
        fprintf(out, " %" PRId64, k);
    }
    fputs(")\n", out);
}

/* 1, 2 or 5 times a power of ten, with which about `wanted` numbers fit into the range. */
static double round_step(const range *r, int wanted) {
    double step = (r->high - r->low) / wanted, power = pow(10.0, floor(log10(step)));
    return power * (step <= power ? 1.0 : step <= 2.0 * power ? 2.0 : step <= 5.0 * power ? 5.0 : 10.0);
}

/* gnuplot's own choice of numbers along a narrow panel writes 0.005, 0.01, 0.015, ... over each other. */
static void put_axis(FILE *out, char axis, const char *label, const range *r, bool narrow) {
    fprintf(out, "set %clabel ", axis);
    put_quoted(out, label);
    fprintf(out, "\n%s logscale %c\n", r->log ? "set" : "unset", axis);
    fprintf(out, "set %crange [%.9g:%.9g]\n", axis, r->low, r->high);
    if (r->log)
        put_log_tics(out, axis, r, narrow);
    else if (narrow)
        fprintf(out, "set %ctics norotate %.6g\n", axis, round_step(r, 4));
    else
        fprintf(out, "set %ctics norotate autofreq\n", axis);
}

static bool has_band(const report_series *s) {
    return s->low != NULL && s->high != NULL && s->style != REPORT_HORIZONTAL;
}

/* The panel whose first curve is block `index` of the data. */
static void put_panel(FILE *out, const report_figure *figure, const report_panel *panel, int64_t index) {
    range x, y;
    find_ranges(figure, panel, &x, &y);
    fputs("set title ", out);
    put_quoted(out, panel->title);
    fputc('\n', out);
    put_axis(out, 'x', panel->x_label, &x, figure->n_panels > 2);
    if (panel->n_x_names > 0) put_names(out, panel);
    put_axis(out, 'y', panel->y_label, &y, false);
    fputs("plot ", out);
    for (int64_t k = 0; k < panel->n_series; k++) { /* in the order of report__plot */
        const report_series *s = &panel->series[k];
        if (!has_band(s)) continue;
        bool bars = s->style == REPORT_INTERVALS;
        fprintf(out, "'%s.dat' index %" PRId64 " using %s lc rgb '%s' %s notitle, \\\n     ", figure->name, index + k,
                bars ? "1:2:3:4 with yerrorbars" : "1:3:4 with filledcurves", report__mark_of(s)->rgb,
                bars ? "lw 2 pt 0" : "fs transparent solid 0.18 noborder");
    }
    for (int64_t k = 0; k < panel->n_series; k++) {
        fprintf(out, "'%s.dat' index %" PRId64 " using 1:2 ", figure->name, index + k);
        put_style(out, &panel->series[k]);
        fputs(" notitle, \\\n     ", out);
    }
    fputs("NaN notitle\n\n", out);
}

/* ---- the strip below --------------------------------------------------------------------------------------------- */

typedef struct legend {
    const report_series *curves[REPORT__CURVES];
    int n, columns, rows;
} legend;

static bool is_among(const report_series *const *curves, int n, const report_series *s) {
    for (int i = 0; i < n; i++)
        if (strcmp(curves[i]->label, s->label) == 0) return true;
    return false;
}

int report__curves(const report_figure *figure, const report_series **curves) {
    int n = 0;
    for (int64_t p = 0; p < figure->n_panels; p++)
        for (int64_t k = 0; k < figure->panels[p].n_series; k++) {
            const report_series *s = &figure->panels[p].series[k];
            if (s->label == NULL || s->label[0] == '\0' || n == REPORT__CURVES || is_among(curves, n, s)) continue;
            curves[n++] = s;
        }
    return n;
}

static void find_legend(const report_figure *figure, int width, legend *l) {
    size_t longest = 1;
    *l = (legend){.columns = 1};
    l->n = report__curves(figure, l->curves);
    for (int i = 0; i < l->n; i++)
        if (strlen(l->curves[i]->label) > longest) longest = strlen(l->curves[i]->label);
    size_t fit = (size_t)width / (longest * LEGEND_PIXELS_A_LETTER + LEGEND_PIXELS_A_SAMPLE);
    l->columns = fit < 1 ? 1 : fit > (size_t)l->n ? l->n : (int)fit;
    l->rows = l->n > 0 ? (l->n + l->columns - 1) / l->columns : 0;
}

static void put_legend(FILE *out, const legend *l, double height) {
    if (l->n == 0) return;
    fprintf(out,
            "# the legend\n"
            "set origin 0, 0\nset size 1, %.6g\n"
            "unset title\nunset xlabel\nunset ylabel\nunset logscale\nunset border\nunset tics\nunset grid\n"
            "set lmargin 0\nset rmargin 0\nset tmargin 0\nset bmargin 0\n"
            "set key center center horizontal Left reverse maxrows %d samplen 2.5\n"
            "plot [0:1] [0:1] ",
            height, l->rows);
    for (int i = 0; i < l->n; i++) {
        fputs("NaN ", out);
        put_style(out, l->curves[i]);
        fputs(" title ", out);
        put_quoted(out, l->curves[i]->label);
        fputs(i + 1 < l->n ? ", \\\n     " : "\n\n", out);
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int64_t columns_of(const report_figure *figure) {
    int64_t columns = figure->columns < 1 ? 1 : figure->columns;
    return columns < figure->n_panels ? columns : figure->n_panels;
}

/* Bands, then curves. */
const report_series *report__plot(const report_figure *figure, int64_t panel, int64_t number, bool *points) {
    *points = false;
    if (panel < 0 || panel >= figure->n_panels || number < 0) return NULL;
    const report_panel *p = &figure->panels[panel];
    for (int64_t k = 0; k < p->n_series; k++)
        if (has_band(&p->series[k]) && number-- == 0) return &p->series[k];
    if (number >= p->n_series) return NULL;
    const report_series *s = &p->series[number];
    *points = s->style == REPORT_POINTS || s->style == REPORT_LINE_POINTS || s->style == REPORT_INTERVALS;
    return s;
}

/* Names that stand aslant need room of their own. */
static int panel_height(const report_figure *figure) {
    enum { MORE = 60 };
    for (int64_t p = 0; p < figure->n_panels; p++)
        if (are_aslant(&figure->panels[p])) return PANEL_HEIGHT + MORE;
    return PANEL_HEIGHT;
}

report__box report__panel_box(const report_figure *figure, int64_t panel) {
    int columns = (int)columns_of(figure), height = panel_height(figure);
    return (report__box){(int)panel % columns * PANEL_WIDTH, (int)panel / columns * height, PANEL_WIDTH, height};
}

static void put_script(FILE *out, const report_figure *figure) {
    report__box last = report__panel_box(figure, figure->n_panels - 1);
    int width = (int)columns_of(figure) * PANEL_WIDTH, panels = last.y + last.height;
    legend l;
    find_legend(figure, width, &l);
    int height = panels + l.rows * LEGEND_ROW;
    fprintf(out,
            "# Draws %s.svg from %s.dat. To draw it again: gnuplot %s.gp\n"
            "if (!exists(\"output\")) output = '%s.svg'\n"
            "set terminal svg size %d,%d dynamic rounded noenhanced font 'sans-serif,13' background rgb 'white'\n"
            "set output output\n"
            "set encoding utf8\n"
            "set border 3\nset tics nomirror out scale 0.6\nset grid lt 1 lw 0.5 lc rgb '#d9d9d9'\nunset key\n"
            "set multiplot\n\n",
            figure->name, figure->name, figure->name, figure->name, width, height);
    int64_t index = 0;
    for (int64_t p = 0; p < figure->n_panels; p++) {
        report__box b = report__panel_box(figure, p);
        fprintf(out, "set origin %.6g, %.6g\nset size %.6g, %.6g\n", (double)b.x / width,
                1 - (double)(b.y + b.height) / height, (double)b.width / width, (double)b.height / height);
        put_panel(out, figure, &figure->panels[p], index);
        index += figure->panels[p].n_series;
    }
    put_legend(out, &l, 1 - (double)panels / height);
    fputs("unset multiplot\nset output\n", out);
}

/* The name stands in the script and in names of files. */
static circe_status check_name(const char *name) {
    bool good = name != NULL && name[0] != '\0' && name[0] != '.' && strlen(name) < 128;
    for (const char *c = name; good && *c != '\0'; c++)
        good = isalnum((unsigned char)*c) || *c == '-' || *c == '_' || *c == '.';
    return good ? CIRCE_OK
                : circe_fail(CIRCE_ERR_ARGUMENT, "the figure's name '%s' must be made of letters, digits, - _ and .",
                             name != NULL ? name : "");
}

static circe_status write_part(const report_figure *figure, const char *folder, const char *ending,
                               void (*put)(FILE *, const report_figure *)) {
    report__text text;
    OWNED char *path = NULL;
    if (asprintf(&path, "%s/%s.%s", folder, figure->name, ending) < 0)
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory");
    report__open(&text);
    if (text.out != NULL) put(text.out, figure);
    return report__save(&text, path);
}

/* Its last bytes are those of a whole SVG: gnuplot does not always notice that a disk is full. */
static bool is_whole(const char *path) {
    static const char ending[] = "</svg>";
    char last[64];
    FILE *in = fopen(path, "rb");
    if (in == NULL) return false;
    size_t bytes = fseek(in, -(long)sizeof last, SEEK_END) == 0 ? fread(last, 1, sizeof last, in) : 0;
    fclose(in);
    while (bytes > 0 && isspace((unsigned char)last[bytes - 1])) bytes--;
    size_t length = sizeof ending - 1;
    return bytes >= length && memcmp(last + bytes - length, ending, length) == 0;
}

/* Drawn under another name first: an old one, or a half of one, must not pass for this figure. */
static bool draw_to(const report_figure *figure, const char *folder, const char *path) {
    circe__atomic file;
    OWNED char *script = NULL;
    if (asprintf(&script, "%s.gp", figure->name) < 0) return false;
    unlink(path);
    bool drawn = circe__atomic_open(&file, path) == 0;
    if (drawn) {
        const char *slash = strrchr(file.temporary, '/');
        drawn = slash != NULL && report__gnuplot(folder, script, slash + 1) && is_whole(file.temporary);
        if (drawn)
            drawn = circe__atomic_commit(&file) == 0;
        else
            circe__atomic_abandon(&file);
    }
    return drawn;
}

static bool draw(const report_figure *figure, const char *folder) {
    OWNED char *path = NULL;
    if (asprintf(&path, "%s/%s.svg", folder, figure->name) < 0) return false;
    return draw_to(figure, folder, path);
}

circe_status report_draw(const report_figure *figure, const char *folder, bool *drawn) {
    circe_status status = check_name(figure->name);
    *drawn = false;
    if (status == CIRCE_OK && figure->n_panels < 1)
        status = circe_fail(CIRCE_ERR_ARGUMENT, "the figure '%s' has no panels", figure->name);
    if (status == CIRCE_OK) status = write_part(figure, folder, "dat", put_data);
    if (status == CIRCE_OK) status = write_part(figure, folder, "gp", put_script);
    if (status == CIRCE_OK) *drawn = draw(figure, folder);
    return status;
}
