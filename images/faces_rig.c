/* The rig: where the lamps stand, how the heads are turned, and which numbers the published identities have. */
#include <math.h>

#include "images/faces.h"

#define BOTH(a, e) \
    {a, e}, { -(a), e }

/* On the middle line, then to the right and the left. */
const faces_light faces_lights[FACES_LIGHTS] = {
    {0, 0},       {0, 20},       {0, 45},       {0, 90},       {0, -20},       {0, -35},      BOTH(5, 10),
    BOTH(5, -10), BOTH(10, 0),   BOTH(10, -20), BOTH(15, 20),  BOTH(20, 10),   BOTH(20, -10), BOTH(20, -40),
    BOTH(25, 0),  BOTH(35, 15),  BOTH(35, 40),  BOTH(35, 65),  BOTH(35, -20),  BOTH(50, 0),   BOTH(50, -40),
    BOTH(60, 20), BOTH(60, -20), BOTH(70, 0),   BOTH(70, 45),  BOTH(70, -35),  BOTH(85, 20),  BOTH(85, -20),
    BOTH(95, 0),  BOTH(110, 15), BOTH(110, 40), BOTH(110, 65), BOTH(110, -20), BOTH(120, 0),  BOTH(130, 20),
};

const int faces_numbers[FACES_IDENTITIES] = {11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
                                             26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39};

int64_t faces_width(int64_t height) { return (7 * height + 4) / 8; }

static float radians(float degrees) { return degrees * (float)(M_PI / 180.0); }

void faces_light_direction(faces_light light, float direction[3]) {
    float a = radians((float)light.azimuth), e = radians((float)light.elevation);
    direction[0] = -sinf(a) * cosf(e); /* the subject's right is the picture's left */
    direction[1] = sinf(e);
    direction[2] = cosf(a) * cosf(e);
}

/* Frontal; five looking 12 degrees off, from up over the side to down; three looking 24 degrees off on that side. */
void faces_pose_direction(int pose, float direction[3]) {
    static const float off[FACES_POSES] = {0, 12, 12, 12, 12, 12, 24, 24, 24};
    static const float towards[FACES_POSES] = {0, 90, 135, 180, 225, 270, 135, 180, 225};
    float a = radians(off[pose]), t = radians(towards[pose]);
    direction[0] = sinf(a) * cosf(t);
    direction[1] = sinf(a) * sinf(t);
    direction[2] = cosf(a);
}
