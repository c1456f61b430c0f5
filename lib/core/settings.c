/* The locale in which the library reads and writes numbers. */
#include "core/settings.h"

#include <pthread.h>

static locale_t plain;

static void find_locale(void) { plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

/* Where there is no memory for it (glibc needs none), uselocale is asked for nothing and changes nothing. */
locale_t circe__plain_locale(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_locale);
    return plain;
}
