/* How a circe_measure prepares x for its kernel at each place: it normalises x and applies a width that follows it
 * (circe/scaling.h). It also keeps figures on the batches of each place.
 *
 * Training steps update widths and figures. Evaluating other points updates nothing: with a moving average they use the
 * width that the steps have left, and with the median of the batch their own. */
#include <math.h>
#include <string.h>

#include "measures/measuring_parts.h"

#include "core/settings.h"

bool circe__measure_follows(const circe_measure *m) {
    return m->options.sigma2_x < 0.0 && m->asked_x != NULL && circe_kernel_n_free(m->asked_x) > 0;
}

bool circe__measure_runs(const circe_measure *m) {
    return m->options.sigma2_x == CIRCE_SIGMA2_RUNNING && circe__measure_follows(m);
}

bool circe__measure_scales(const circe_measure *m) {
    return circe__measure_follows(m) || m->options.normalize_x != CIRCE_NORMALIZE_NONE;
}

circe_scaling circe__measure_scaling(const circe_measure *m, bool frozen) {
    bool runs = circe__measure_runs(m);
    return (circe_scaling){.normalize = m->options.normalize_x,
                           .keep = runs ? CIRCE_RUNNING_KEEP : 0.0,
                           .frozen = runs && (frozen || m->leader != NULL)};
}

/* ---- places ------------------------------------------------------------------------------------------------------ */

static int64_t n_widths(const circe_measure *m) { return m->asked_x != NULL ? circe_kernel_n_factors(m->asked_x) : 0; }

void circe__measure_forget_widths(circe_measure *m) {
    for (int64_t p = 0; p < m->n_x_places; p++) circe__free(m->context, m->x_places[p].widths);
    circe__free(m->context, m->x_places);
    circe__free(m->context, m->widths);
    m->x_places = NULL;
    m->widths = NULL;
    m->n_x_places = 0;
}

static bool grow(circe_measure *m, int64_t n) {
    circe__x_place *grown = circe__calloc(m->context, n, sizeof *grown);
    if (grown == NULL) return false;
    if (m->n_x_places > 0) memcpy(grown, m->x_places, (size_t)m->n_x_places * sizeof *grown);
    circe__free(m->context, m->x_places);
    m->x_places = grown;
    for (; m->n_x_places < n; m->n_x_places++) {
        double *widths = circe__calloc(m->context, n_widths(m) + 1, sizeof *widths);
        if (widths == NULL) return false;
        grown[m->n_x_places].widths = widths;
    }
    return true;
}

circe__x_place *circe__measure_x_place(circe_measure *m, int64_t place) {
    if (m->widths == NULL) m->widths = circe__calloc(m->context, n_widths(m) + 1, sizeof *m->widths);
    if (m->widths == NULL || (place >= m->n_x_places && !grow(m, place + 1))) return NULL;
    return &m->x_places[place];
}

/* The widths before: the place's, or the leader's. */
static void recall_widths(circe_measure *m, int64_t place) {
    const circe_measure *of = m->leader != NULL && circe__measure_runs(m) ? m->leader : m;
    size_t bytes = (size_t)n_widths(m) * sizeof *m->widths;
    memset(m->widths, 0, bytes);
    if (place < of->n_x_places) memcpy(m->widths, of->x_places[place].widths, bytes);
}

/* ---- x and its gradient ------------------------------------------------------------------------------------------ */

/* The kernel whose factors without a width follow x; NULL: none does. */
static const circe_kernel *following_kernel(const circe_measure *m) {
    return circe__measure_follows(m) ? m->asked_x : NULL;
}

/* The figures of a kernel whose widths are given; seen: x as that kernel sees it. */
static circe_status watch(circe_measure *m, circe__x_place *p, const circe_mat *x, const circe_mat *seen) {
    const circe_kernel *kernel = NULL;
    circe_scaling scaling = circe__measure_scaling(m, false);
    circe_status status = circe__measure_kernel_x(m, seen, &kernel);
    return status == CIRCE_OK ? circe_scale(m->workspace, kernel, &scaling, x, p->widths, p->figures, NULL) : status;
}

static circe_status scale(circe_measure *m, int64_t place, bool in_step, const circe_mat *x, circe_mat *room) {
    circe_scaling scaling = circe__measure_scaling(m, !in_step);
    circe__x_place *p = &m->x_places[place];
    bool follows = circe__measure_follows(m);
    void *data = circe__take(m->workspace, CIRCE__SLOT_SCALED_X, x->rows * x->cols, circe_dtype_size(x->dtype));
    if (data == NULL) return CIRCE_ERR_MEMORY;
    *room = circe__mat(data, x->rows, x->cols, x->dtype);
    recall_widths(m, place);
    circe_status status = circe_scale(m->workspace, following_kernel(m), &scaling, x, m->widths,
                                      in_step && follows ? p->figures : NULL, room);
    if (status == CIRCE_OK && in_step && follows) memcpy(p->widths, m->widths, (size_t)n_widths(m) * sizeof *m->widths);
    return status == CIRCE_OK && in_step && !follows ? watch(m, p, x, room) : status;
}

circe_status circe__measure_scale(circe_measure *m, int64_t place, bool in_step, const circe_mat *x, circe_mat *room,
                                  const circe_mat **scaled) {
    bool scales = circe__measure_scales(m), watched = in_step && m->features == m->own_features;
    *scaled = x;
    if (!scales && !watched) return CIRCE_OK;
    circe_status status = circe__check_mat(x, "x", 1);
    if (status == CIRCE_OK && circe__measure_x_place(m, place) == NULL) status = CIRCE_ERR_MEMORY;
    if (status != CIRCE_OK) return status;
    if (!scales) return watch(m, &m->x_places[place], x, x);
    *scaled = room;
    return scale(m, place, in_step, x, room);
}

circe_status circe__measure_scale_back(circe_measure *m, const circe_mat *x, circe_mat *grad) {
    circe_scaling scaling = circe__measure_scaling(m, true);
    if (!circe__measure_scales(m)) return CIRCE_OK;
    return circe_scale_gradient(m->workspace, following_kernel(m), &scaling, x, m->widths, grad);
}

/* ---- figures ----------------------------------------------------------------------------------------------------- */

static double first_width(const circe_measure *m, const circe__x_place *p) {
    for (int64_t f = 0; f < n_widths(m); f++)
        if (p->widths[f] > 0.0) return p->widths[f];
    return NAN;
}

circe_status circe_measure_figures(circe_measure *m, int64_t place, circe_x_figures *figures) {
    CIRCE_OWN_SETTINGS;
    if (m == NULL || figures == NULL || place < 0 || place >= CIRCE__MOST_PLACES)
        return circe_fail(CIRCE_ERR_ARGUMENT, "measure and figures must not be NULL, and place must be at least 0");
    *figures = (circe_x_figures){.mean_kernel = NAN, .spread = NAN, .sigma2 = NAN};
    circe_status status = m->device != NULL ? m->device->report(m, place) : CIRCE_OK;
    if (status != CIRCE_OK || place >= m->n_x_places) return status;
    circe__x_place *p = &m->x_places[place];
    double batches = p->figures[CIRCE_FIGURE_BATCHES];
    if (batches > 0.0)
        *figures = (circe_x_figures){.batches = (int64_t)batches,
                                     .mean_kernel = p->figures[CIRCE_FIGURE_KERNEL] / batches,
                                     .spread = p->figures[CIRCE_FIGURE_SPREAD] / batches,
                                     .sigma2 = first_width(m, p)};
    memset(p->figures, 0, sizeof p->figures);
    return CIRCE_OK;
}

/* ---- state: the number of places, then the widths of each ------------------------------------------------------- */

size_t circe__measure_widths_bytes(const circe_measure *m) {
    if (!circe__measure_runs(m) || m->n_x_places == 0) return 0;
    return sizeof(int64_t) + (size_t)(m->n_x_places * n_widths(m)) * sizeof(double);
}

void circe__measure_get_widths(const circe_measure *m, void *state) {
    char *at = state;
    size_t bytes = (size_t)n_widths(m) * sizeof(double);
    memcpy(at, &m->n_x_places, sizeof m->n_x_places);
    at += sizeof m->n_x_places;
    for (int64_t p = 0; p < m->n_x_places; p++, at += bytes) memcpy(at, m->x_places[p].widths, bytes);
}

circe_status circe__measure_set_widths(circe_measure *m, const void *state, size_t bytes) {
    const char *at = state;
    int64_t places = -1;
    size_t one = (size_t)n_widths(m) * sizeof(double);
    if (bytes >= sizeof places) memcpy(&places, at, sizeof places);
    if (places < 0 || places > CIRCE__MOST_PLACES || bytes != sizeof places + (size_t)places * one)
        return circe_fail(CIRCE_ERR_FORMAT, "the measure's state is damaged or belongs to another run");
    at += sizeof places;
    for (int64_t p = 0; p < places; p++, at += one) {
        circe__x_place *to = circe__measure_x_place(m, p);
        if (to == NULL) return CIRCE_ERR_MEMORY;
        memcpy(to->widths, at, one);
        for (int64_t f = 0; f < n_widths(m); f++)
            if (!(to->widths[f] >= 0.0 && isfinite(to->widths[f])))
                return circe_fail(CIRCE_ERR_FORMAT, "the measure's state has a width of %g", to->widths[f]);
    }
    return CIRCE_OK;
}
