/* Contact sheets: many small pictures of a set on one sheet. */
#pragma once

#include "images/picture.h"

/* A sheet of a folder that yaleb_list_make can read: poses downwards and lamps across for its first person, then every
 * person. */
circe_status image_sheet_faces(const char *folder, image_picture *sheet);

/* A sheet of all dSprites, bits (737280, 512); NULL: they are drawn. Shapes downwards; scale, orientation, position and
 * y across. */
circe_status image_sheet_dsprites(const uint8_t *bits, image_picture *sheet);
