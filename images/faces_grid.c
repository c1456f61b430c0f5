/* The distances to a head are sampled once, on a grid of 3 mm, so that rays of light and of the camera can be followed
 * by a look-up a step. What is near the surface is then computed exactly where it is seen, and from the grid where it
 * only casts a shadow. Cost: some 700,000 distances. */
#include "images/faces_grid.h"

#include <stdlib.h>

#include "circe/status.h"

static const float grid_step = 0.03f;

static void sample_slice(void *user, int64_t k) {
    faces_model *m = user;
    for (int32_t j = 0; j < m->ny; j++) {
        for (int32_t i = 0; i < m->nx; i++) {
            faces_vector at = {m->low.x + m->step * (float)i, m->low.y + m->step * (float)j,
                               m->low.z + m->step * (float)k};
            m->distance[(k * m->ny + j) * m->nx + i] = faces_distance(&m->head, at);
        }
    }
}

circe_status faces_model_make(const circe_context *context, const faces_head *head, faces_model **model) {
    faces_model *m = calloc(1, sizeof *m);
    *model = NULL;
    if (m == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for a head");
    *m = (faces_model){.head = *head,
                       .context = context,
                       .low = {-1.2f, -1.75f, -1.35f},
                       .step = grid_step,
                       .nx = 81,
                       .ny = 105,
                       .nz = 90};
    m->distance = malloc((size_t)m->nx * (size_t)m->ny * (size_t)m->nz * sizeof *m->distance);
    if (m->distance == NULL) {
        faces_model_free(m);
        return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the distances to a head");
    }
    circe_context_run(context, m->nz, sample_slice, m);
    *model = m;
    return CIRCE_OK;
}

void faces_model_free(faces_model *model) {
    if (model == NULL) return;
    free(model->distance);
    free(model);
}
