/* Contact sheets. */
#include "images/sheet.h"

#include <stdlib.h>
#include <string.h>

#include "base/owned.h"
#include "circe/status.h"
#include "images/dsprites.h"
#include "images/resize.h"
#include "images/yaleb.h"

enum { GAP = 3, PAPER = 40 }; /* pixels between pictures, and their grey */

/* A grid of cells of one size, filled with paper. */
typedef struct grid {
    int64_t rows, cols, width, height; /* of a cell */
    image_picture *sheet;
} grid;

static circe_status lay_out(grid *g) {
    circe_status status = image_picture_make(g->cols * (g->width + GAP) + GAP, g->rows * (g->height + GAP) + GAP, 1,
                                             "the contact sheet", g->sheet);
    if (status == CIRCE_OK) memset(g->sheet->pixels, PAPER, (size_t)(g->sheet->width * g->sheet->height));
    return status;
}

static void put(const grid *g, int64_t row, int64_t col, const uint8_t *pixels) {
    uint8_t *corner =
        g->sheet->pixels + (GAP + row * (g->height + GAP)) * g->sheet->width + GAP + col * (g->width + GAP);
    for (int64_t r = 0; r < g->height; r++)
        memcpy(corner + r * g->sheet->width, pixels + r * g->width, (size_t)g->width);
}

/* ---- faces ------------------------------------------------------------------------------------------------------- */

enum { FACE_COLUMNS = 14, FACE_HEIGHT = 128 };

/* The cell stays empty where the set has no such picture. */
static circe_status put_face(const grid *g, int64_t row, int64_t col, const yaleb_list *list, yaleb_name wanted) {
    int64_t i = yaleb_find(list->names, list->n, &wanted);
    image_picture picture;
    if (i < 0) return CIRCE_OK;
    OWNED uint8_t *cell = malloc((size_t)(g->width * g->height));
    if (cell == NULL) return circe_fail(CIRCE_ERR_MEMORY, "out of memory for the contact sheet");
    circe_status status = image_picture_read(list->paths[i], &picture);
    if (status == CIRCE_OK) {
        image_picture_grey(&picture);
        status = image_resize(&picture, g->width, g->height, cell);
        image_picture_free(&picture);
    }
    if (status == CIRCE_OK) put(g, row, col, cell);
    return status;
}

static circe_status put_poses(const grid *g, const yaleb_list *list) {
    static const faces_light across[FACE_COLUMNS] = {{130, 20}, {95, 0},  {70, 0},  {50, 0},  {25, 0},
                                                     {10, 0},   {0, 0},   {-10, 0}, {-25, 0}, {-50, 0},
                                                     {-70, 0},  {-95, 0}, {0, 45},  {0, -35}};
    circe_status status = CIRCE_OK;
    for (int pose = 0; pose < FACES_POSES; pose++) {
        for (int c = 0; c < FACE_COLUMNS && status == CIRCE_OK; c++) {
            yaleb_name name = {list->names[0].identity, pose, across[c].azimuth, across[c].elevation};
            status = put_face(g, pose, c, list, name);
        }
    }
    return status;
}

static circe_status put_people(const grid *g, const yaleb_list *list) {
    circe_status status = CIRCE_OK;
    int64_t person = 0;
    for (int64_t i = 0; i < list->n && status == CIRCE_OK; i++) {
        if (i > 0 && list->names[i].identity == list->names[i - 1].identity) continue;
        yaleb_name name = {list->names[i].identity, 0, 20, 10};
        status = put_face(g, FACES_POSES + person / FACE_COLUMNS, person % FACE_COLUMNS, list, name);
        person++;
    }
    return status;
}

/* Cells take the proportions of the first picture. */
static circe_status measure_cell(const yaleb_list *list, grid *g) {
    image_picture first;
    circe_status status = image_picture_read(list->paths[0], &first);
    if (status != CIRCE_OK) return status;
    g->height = FACE_HEIGHT;
    g->width = (FACE_HEIGHT * first.width + first.height / 2) / first.height;
    if (g->width < 1) g->width = 1;
    image_picture_free(&first);
    return CIRCE_OK;
}

circe_status image_sheet_faces(const char *folder, image_picture *sheet) {
    yaleb_list list;
    *sheet = (image_picture){0};
    circe_status status = yaleb_list_make(folder, &list);
    if (status != CIRCE_OK) return status;
    grid g = {FACES_POSES + (list.n_identities + FACE_COLUMNS - 1) / FACE_COLUMNS, FACE_COLUMNS, 0, 0, sheet};
    status = measure_cell(&list, &g);
    if (status == CIRCE_OK) status = lay_out(&g);
    if (status == CIRCE_OK) status = put_poses(&g, &list);
    if (status == CIRCE_OK) status = put_people(&g, &list);
    yaleb_list_free(&list);
    if (status != CIRCE_OK) image_picture_free(sheet);
    return status;
}

/* ---- dSprites ---------------------------------------------------------------------------------------------------- */

enum { SPRITE_COLUMNS = 12, SPRITE_ROWS = 4 }; /* of a shape */

/* One latent moves in each row, the others stand still. */
static dsprites_latents latents_at(int shape, int row, int col) {
    dsprites_latents l = {shape, 5, 0, 16, 16};
    if (row == 0) l.scale = col / 2, l.orientation = col % 2 == 0 ? 0 : 5;
    if (row == 1) l.orientation = 3 * col;
    if (row == 2) l.x = col * 31 / (SPRITE_COLUMNS - 1);
    if (row == 3) l.y = col * 31 / (SPRITE_COLUMNS - 1), l.scale = 2;
    return l;
}

circe_status image_sheet_dsprites(const uint8_t *bits, image_picture *sheet) {
    grid g = {DSPRITES_SHAPES * SPRITE_ROWS, SPRITE_COLUMNS, DSPRITES_SIDE, DSPRITES_SIDE, sheet};
    circe_status status = lay_out(&g);
    for (int64_t row = 0; row < g.rows && status == CIRCE_OK; row++) {
        for (int64_t col = 0; col < g.cols; col++) {
            uint8_t drawn[DSPRITES_BYTES], pixels[DSPRITES_SIDE * DSPRITES_SIDE];
            dsprites_latents l = latents_at((int)(row / SPRITE_ROWS), (int)(row % SPRITE_ROWS), (int)col);
            if (bits == NULL)
                dsprites_render(&l, drawn);
            else
                memcpy(drawn, bits + dsprites_number_of(&l) * DSPRITES_BYTES, DSPRITES_BYTES);
            for (int i = 0; i < DSPRITES_SIDE * DSPRITES_SIDE; i++)
                pixels[i] = (drawn[i / 8] >> (7 - i % 8)) & 1 ? 255 : 0;
            put(&g, row, col, pixels);
        }
    }
    return status;
}
