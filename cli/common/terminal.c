/* Makes every byte of standard output pass through one function. All commands print names of files and columns, and
 * none of these names may control the terminal. JSON stays valid, because control characters are written as JSON
 * escapes them. Lines that are too long are folded only if standard output is a terminal. */
#include "cli/common/terminal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/file.h"
#include "base/owned.h"
#include "io/io.h"

enum { LONGEST = 4 }; /* bytes of a character */

static char begun[LONGEST]; /* a character whose end is still to come */
static size_t n_begun;
static int width; /* of the terminal; 0: lines are not folded */
static enum { VISIBLE, AS_IT_IS, NOTHING } mode;

static bool write_visible(const char *text, size_t bytes) {
    OWNED char *visible = io_visible(text, bytes, true);
    if (visible == NULL) errno = ENOMEM;
    OWNED char *folded = visible != NULL && width > 0 ? fold_lines(visible, strlen(visible), width) : NULL;
    const char *shown = folded != NULL ? folded : visible;
    return shown != NULL && file_write_all(STDOUT_FILENO, shown, strlen(shown));
}

/* Bytes at the end that begin a character and do not finish it. */
static size_t unfinished(const char *text, size_t bytes) {
    for (size_t n = 1; n < LONGEST && n <= bytes; n++) {
        unsigned char lead = (unsigned char)text[bytes - n];
        if ((lead & 0xc0) == 0x80) continue;
        size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
        return length > n ? n : 0;
    }
    return 0;
}

static ssize_t on_write(void *cookie, const char *data, size_t bytes) {
    (void)cookie;
    if (mode == NOTHING) return (ssize_t)bytes;
    if (mode == AS_IT_IS) return file_write_all(STDOUT_FILENO, data, bytes) ? (ssize_t)bytes : 0;
    size_t whole = n_begun + bytes;
    OWNED char *text = malloc(whole > 0 ? whole : 1);
    if (text == NULL) {
        errno = ENOMEM;
        return 0;
    }
    memcpy(text, begun, n_begun);
    memcpy(text + n_begun, data, bytes);
    size_t kept = unfinished(text, whole);
    bool written = write_visible(text, whole - kept);
    memcpy(begun, text + whole - kept, kept);
    n_begun = kept;
    return written ? (ssize_t)bytes : 0;
}

static int on_close(void *cookie) {
    (void)cookie;
    bool written = write_visible(begun, n_begun);
    n_begun = 0;
    int problem = errno;
    if (close(STDOUT_FILENO) != 0) return -1;
    errno = problem;
    return written ? 0 : -1;
}

void terminal_guard(void) {
    static const cookie_io_functions_t functions = {.write = on_write, .close = on_close};
    FILE *guarded = fopencookie(NULL, "w", functions);
    if (guarded == NULL) return; /* no memory for it: what follows will say so */
    setvbuf(guarded, NULL, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF, BUFSIZ);
    stdout = guarded;
    struct winsize size;
    if (isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) width = size.ws_col;
}

void terminal_unfolded(void) {
    fflush(stdout);
    width = 0;
}

void terminal_data(void) {
    terminal_unfolded();
    if (!isatty(STDOUT_FILENO)) mode = AS_IT_IS;
}

void terminal_silence(void) {
    fflush(stdout);
    mode = NOTHING;
}
