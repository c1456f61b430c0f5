/* Figures like the paper's: error against VCF, one panel per model; limits over the dimension; the loss on pictures
 * over gamma. */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "paper/paper_parts.h"
#include "report/chart.h"

/* The colour of a method: its regulariser's in every experiment; a second method of the same takes a free one. */
static int colour_of(const paper_config *config, int64_t method) {
    static const int usual[] = {3, 0, 1, 2, 4}; /* none, circe, hscic, gcm, hsic */
    static const int spare[] = {5, 4, 6, 3, 2, 1};
    int second = 0;
    for (int64_t m = 0; m < method; m++)
        second += paper_method_at(config, m)->regularizer == paper_method_at(config, method)->regularizer;
    if (second == 0) return usual[paper_method_at(config, method)->regularizer];
    int before = 0; /* spare colours that earlier methods took */
    for (int64_t m = 0; m < method; m++)
        for (int64_t k = 0; k < m; k++)
            if (paper_method_at(config, m)->regularizer == paper_method_at(config, k)->regularizer) {
                before++;
                break;
            }
    return spare[before % 6];
}

/* Below 1e-6 the axis ends: a prediction that collapsed would stretch it to 1e-20. */
static chart *begin(void) {
    chart *c = chart_new();
    c->least = 1e-6;
    return c;
}

/* Takes the chart. */
static circe_status finish(const paper *p, chart *c, const char *name, const char *caption, const char *folder,
                           report *page) {
    bool drawn;
    circe_status status = chart_draw(c, name, caption, folder, page, &drawn);
    char text[512];
    snprintf(text, sizeof text, "gnuplot is not installed or failed, so %s/%s.svg was not drawn", folder, name);
    if (status == CIRCE_OK && !drawn && p->watch != NULL && p->watch->warning != NULL)
        p->watch->warning(p->watch->user, text);
    return status;
}

/* ---- error against VCF ------------------------------------------------------------------------------------------- */

/* Medians over seeds, along gamma. */
static void add_front(const paper *p, chart *c, report_panel *panel, int64_t group, paper_number y) {
    const paper_group *g = &p->groups[group];
    const paper_method *method = paper_method_at(&p->config, g->method);
    report_series *s = chart_series(c, panel, REPORT_POINTS, colour_of(&p->config, g->method), method->name, p->rows.n);
    for (int64_t i = 0; i < p->rows.n; i++) {
        const paper_row *row = &p->rows.list[i];
        if (row->group == group && row->n > 0) chart_point(s, row->number[NUMBER_MSE].median, row->number[y].median);
    }
    if (s->n > 1) s->style = REPORT_LINE_POINTS;
}

/* A point a seed. */
static void add_seeds(const paper *p, chart *c, report_panel *panel, int64_t group, paper_number y) {
    const paper_group *g = &p->groups[group];
    report_series *s = chart_series(c, panel, REPORT_POINTS, colour_of(&p->config, g->method),
                                    paper_method_at(&p->config, g->method)->name, p->sweep.n_runs);
    for (int64_t i = 0; i < p->sweep.n_runs; i++) {
        const paper_planned *run = &p->runs[i];
        if (run->group == group && run->role == ROLE_FINAL && p->sweep.runs[i].state == SWEEP_DONE)
            chart_point(s, run->numbers.at[NUMBER_MSE], run->numbers.at[y]);
    }
}

/* The floor as a line from the lowest to the highest point of the panel. */
static void add_floor(const paper *p, chart *c, report_panel *panel, const paper_group *group) {
    double floor = NAN, low = DBL_MAX, high = 0;
    for (int64_t i = 0; i < p->rows.n; i++) {
        const paper_row *row = &p->rows.list[i];
        if (row->model == group->model && row->d == group->d && row->n > 0) floor = row->number[NUMBER_FLOOR].median;
    }
    for (int64_t k = 0; k < panel->n_series; k++)
        for (int64_t i = 0; i < panel->series[k].n; i++) {
            double y = panel->series[k].y[i];
            if (y > 0 && y < low) low = y;
            if (y > high) high = y;
        }
    if (!(low < high)) return;
    report_series *s = chart_series(c, panel, REPORT_LINE, CHART_GREY, "floor", 2);
    chart_point(s, floor, low);
    chart_point(s, floor, high);
    s->dashed = true;
}

static bool same_model(const paper_group *a, const paper_group *b) { return a->model == b->model && a->d == b->d; }

static void fill_trade_off(const paper *p, bool support, chart *c) {
    const char *label = support ? "VCF on the support" : "VCF";
    paper_number y = support ? NUMBER_VCF_SUPPORT : NUMBER_VCF;
    for (int64_t first = 0; first < p->n_groups && c->n_panels < CHART_PANELS;) {
        char title[PAPER_MODEL_BYTES];
        report_panel *panel = chart_panel(c, paper_model_text(p->groups[first].model, p->groups[first].d, title),
                                          "mean squared error", label);
        panel->log_y = true;
        int64_t g = first;
        for (; g < p->n_groups && same_model(&p->groups[g], &p->groups[first]); g++) {
            if (p->config.sweep)
                add_front(p, c, panel, g, y);
            else
                add_seeds(p, c, panel, g, y);
        }
        add_floor(p, c, panel, &p->groups[first]);
        first = g;
    }
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

static void add_limit(const paper *p, chart *c, report_panel *panel, int word, const char *label, int colour,
                      paper_number y) {
    report_series *s = chart_series(c, panel, REPORT_LINE_POINTS, colour, label, p->rows.n);
    for (int64_t i = 0; i < p->rows.n; i++) {
        const paper_row *row = &p->rows.list[i];
        if (row->model->word == word && row->first != NULL) chart_point(s, (double)row->d, row->first->at[y]);
    }
}

static void fill_limits(const paper *p, chart *c) {
    for (int word = MODEL_MULTIVARIATE1; word <= MODEL_MULTIVARIATE2; word++) {
        int64_t n = 0;
        for (int64_t i = 0; i < p->rows.n; i++) n += p->rows.list[i].model->word == word;
        if (n < 2) continue;
        report_panel *panel = chart_panel(c, paper_model_name(word), "dimension d", "in units of Var(B)");
        panel->log_x = panel->log_y = true;
        add_limit(p, c, panel, word, "vcf of the best predictor", 0, NUMBER_VCF);
        add_limit(p, c, panel, word, "floor, and vcf_support of the best predictor", 1, NUMBER_FLOOR);
    }
}

static circe_status draw_trade_off(const paper *p, bool support, const char *folder, report *page) {
    char caption[640];
    chart *c = begin();
    fill_trade_off(p, support, c);
    snprintf(caption, sizeof caption,
             "%s. Lower is more invariant, further left is more accurate. The dashed line is the floor: no invariant "
             "predictor can lie to its left. Values below 1e-6 are drawn at 1e-6. %s",
             p->config.sweep ? "Medians over seeds, along the weight gamma of each method" : "One point per seed",
             support ? "Here z' is drawn from P(Z | Y), as it occurs with the y of the point."
                     : "z' is drawn from P(Z), as in the paper. Most such values do not occur with the y of the point, "
                       "so this VCF partly measures extrapolation.");
    return finish(p, c, support ? "vcf_support" : "vcf", caption, folder, page);
}

circe_status paper_figures_synthetic(const paper *p, const char *folder, report *page) {
    circe_status status = draw_trade_off(p, false, folder, page);
    return status == CIRCE_OK ? draw_trade_off(p, true, folder, page) : status;
}

circe_status paper_figures_limits(const paper *p, const char *folder, report *page) {
    chart *c = begin();
    fill_limits(p, c);
    return finish(p, c, "limits",
                  "The floor of the error of any invariant predictor, and the distance of the best unregularised "
                  "predictor from invariance, against the dimension.",
                  folder, page);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

static void band(report_series *s, double x, const paper_spread *y) { chart_band(s, x, y->median, y->low, y->high); }

/* For every method a panel of the test loss over gamma, in domain and out of domain, medians with the range over seeds
 * shaded; the encoder that was trained out of domain as a line, and the one without a regulariser as a dashed one. */
enum { BLUE = 0, ORANGE = 4, RED = 1, GREY = -1 }; /* of the palette: as in the paper */

static void along_gamma(const paper *p, chart *c, report_panel *panel, int64_t group, paper_number number,
                        const char *label, int colour) {
    int64_t room = p->rows.n;
    report_series *s = chart_series(c, panel, REPORT_LINE_POINTS, colour, label, room);
    for (int64_t i = 0; i < room; i++) {
        const paper_row *row = &p->rows.list[i];
        if (row->group == group && row->n > 0) band(s, row->choice.gamma, &row->number[number]);
    }
}

/* The first row of this model without a regulariser, trained in domain or out of it; NULL: none. */
static const paper_row *plain(const paper *p, const paper_group *group, int trained_on) {
    for (int64_t i = 0; i < p->rows.n; i++) {
        const paper_row *row = &p->rows.list[i];
        const paper_method *method = paper_method_at(&p->config, row->method);
        if (row->model == group->model && row->n > 0 && !row->regularized && method->trained_on == trained_on)
            return row;
    }
    return NULL;
}

/* A level over the gammas of the group. */
static void level(const paper *p, chart *c, report_panel *panel, int64_t group, const paper_row *row, const char *label,
                  int colour, bool dashed) {
    int64_t room = p->rows.n;
    if (row == NULL) return;
    report_series *s = chart_series(c, panel, REPORT_LINE, colour, label, room);
    s->dashed = dashed;
    for (int64_t i = 0; i < room; i++)
        if (p->rows.list[i].group == group && p->rows.list[i].n > 0)
            band(s, p->rows.list[i].choice.gamma, &row->number[NUMBER_OOD_MSE]);
    if (s->n == 1) s->style = REPORT_HORIZONTAL; /* a line needs two points */
}

static void add_method(const paper *p, chart *c, int64_t group) {
    const paper_group *g = &p->groups[group];
    const paper_method *method = paper_method_at(&p->config, g->method);
    char model[PAPER_MODEL_BYTES], title[192];
    if (method->regularizer == REGULARIZER_NONE || c->n_panels == CHART_PANELS) return;
    snprintf(title, sizeof title, "%s: %s", paper_model_text(g->model, g->d, model), method->name);
    report_panel *panel = chart_panel(c, title, "gamma", "test loss");
    panel->log_x = panel->log_y = true;
    along_gamma(p, c, panel, group, NUMBER_MSE, "in domain", BLUE);
    along_gamma(p, c, panel, group, NUMBER_OOD_MSE, "out of domain (OOD)", ORANGE);
    level(p, c, panel, group, plain(p, g, ON_OOD), "encoder trained OOD", RED, false);
    level(p, c, panel, group, plain(p, g, ON_DOMAIN), "no regulariser, OOD", GREY, true);
}

circe_status paper_figures_images(const paper *p, const char *folder, report *page) {
    chart *c = begin();
    c->same_y = true;
    for (int64_t group = 0; group < p->n_groups; group++) add_method(p, c, group);
    return finish(p, c, "loss",
                  "Test loss against the weight gamma: in domain, and out of domain (OOD), where the distractor is no "
                  "longer associated with the target. Curves are medians over seeds; the shaded range goes from the "
                  "smallest to the largest. The solid line is the OOD loss of an encoder trained on OOD data, which no "
                  "method sees; the dashed line is the OOD loss without a regulariser.",
                  folder, page);
}
