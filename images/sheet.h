/* Contact sheets: many small pictures of a set on one sheet. */
#ifndef IMAGES_SHEET_H
#define IMAGES_SHEET_H

#include "images/picture.h"

/* Of a folder as yaleb_list_make reads it: poses downwards and lamps across for its first person, then every person. */
circe_status image_sheet_faces(const char *folder, image_picture *sheet);

/* Of all dSprites, bits (737280, 512); NULL: drawn. Shapes downwards; scale, orientation, position and y across. */
circe_status image_sheet_dsprites(const uint8_t *bits, image_picture *sheet);

#endif
