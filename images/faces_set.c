/* Renders every picture of the set. The distances of a head are computed once and its geometry once per pose; then 64
 * lamps light it. Most of the time goes into the lamps, which run side by side. */
#include <stdlib.h>

#include "base/owned.h"
#include "images/faces_view.h"
#include "images/stack_parts.h"

static const float sensor_noise = 1.5f; /* grey levels */

void faces_options_init(faces_options *options) {
    *options = (faces_options){.seed = 0, .identities = FACES_IDENTITIES, .height = FACES_HEIGHT};
}

circe_status faces_options_check(const faces_options *options) {
    if (options->identities < 1 || options->identities > FACES_IDENTITIES)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the number of identities must be 1 to %d, not %lld", FACES_IDENTITIES,
                          (long long)options->identities);
    if (options->height < 16 || options->height > 1024)
        return circe_fail(CIRCE_ERR_ARGUMENT, "the height of a picture must be 16 to 1024 pixels, not %lld",
                          (long long)options->height);
    return CIRCE_OK;
}

typedef struct rendering {
    const faces_options *options;
    faces_take_fn take;
    void *take_user;
    int64_t identity;
    int pose;
    const faces_view *view;
} rendering;

static circe_status take_light(const rendering *r, int light, uint8_t *pixels) {
    uint64_t stream = (uint64_t)((r->identity * FACES_POSES + r->pose) * FACES_LIGHTS + light);
    circe_status status = faces_shade(r->view, faces_lights[light], sensor_noise, r->options->seed, stream, pixels);
    return status == CIRCE_OK ? r->take(r->take_user, r->identity, r->pose, light, pixels) : status;
}

static circe_status light_one(void *user, int64_t light) {
    const rendering *r = user;
    OWNED uint8_t *pixels = malloc((size_t)(r->view->width * r->view->height));
    return pixels == NULL ? circe_fail(CIRCE_ERR_MEMORY, "out of memory for a picture")
                          : take_light(r, (int)light, pixels);
}

static circe_status render_pose(rendering *r, const faces_model *model, int64_t identity, int pose) {
    faces_view *view = NULL;
    int64_t wrong;
    circe_status status = faces_view_make(model, pose, r->options->height, &view);
    if (status != CIRCE_OK) return status;
    r->identity = identity;
    r->pose = pose;
    r->view = view;
    status = image_stack_each(model->context, FACES_LIGHTS, &(image_stack_options){0}, light_one, r, &wrong);
    faces_view_free(view);
    return status;
}

circe_status faces_render(const circe_context *context, const faces_options *options, faces_take_fn take,
                          void *take_user, circe_progress_fn progress, void *progress_user) {
    rendering r = {.options = options, .take = take, .take_user = take_user};
    circe_status status = faces_options_check(options);
    for (int64_t i = 0; i < options->identities && status == CIRCE_OK; i++) {
        faces_head head;
        faces_model *model = NULL;
        faces_head_draw(options->seed, i, &head);
        status = faces_model_make(context, &head, &model);
        for (int pose = 0; pose < FACES_POSES && status == CIRCE_OK; pose++) {
            status = render_pose(&r, model, i, pose);
            if (status == CIRCE_OK && progress != NULL &&
                progress(progress_user, "rendering heads", i * FACES_POSES + pose + 1,
                         options->identities * FACES_POSES))
                status = circe_fail(CIRCE_ERR_CANCELLED, "interrupted; nothing was written");
        }
        faces_model_free(model);
    }
    return status;
}
