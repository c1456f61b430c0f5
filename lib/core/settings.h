/* What a program may have set for its threads, and the library's numbers hang on: how they round, whether they flush
 * denormal numbers and trap (a SIGFPE at an infinity that the library reckons with), and the decimal point of texts,
 * which is a comma in half of Europe after setlocale. CIRCE_OWN_SETTINGS at the head of a public function gives the
 * calling thread the settings of a new process until the function returns, and then everything as it was, the flags of
 * exceptions too. It takes some nanoseconds. Compilers may move arithmetic of that function itself across it, but not
 * that of the functions it calls, where the work is done. */
#pragma once

#include <locale.h>

#include "core/rooms.h"

typedef struct circe__settings {
    locale_t locale;
    unsigned arithmetic;
} circe__settings;

#if defined(__x86_64__)
/* The register of SSE below, and the control word of the x87 above, in which OpenBLAS takes norms. FLAGS: what has
 * happened. Builtins, as the header of intrinsics is a large one for everybody to read. */
enum { CIRCE__FLAGS = 0x3f, CIRCE__ARITHMETIC = 0x037f1f80 }; /* to nearest, all exceptions masked */
static inline unsigned circe__get_arithmetic(void) {
    unsigned short x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return __builtin_ia32_stmxcsr() | (unsigned)x87 << 16;
}
static inline void circe__set_arithmetic(unsigned arithmetic) {
    unsigned short x87 = (unsigned short)(arithmetic >> 16);
    __builtin_ia32_ldmxcsr(arithmetic & 0xffff);
    if (x87 != circe__get_arithmetic() >> 16) /* without flags, at which it would trap now */
        __asm__ volatile("fnclex\n\tfldcw %0" : : "m"(x87));
}
#elif defined(__aarch64__)
enum { CIRCE__FLAGS = 0, CIRCE__ARITHMETIC = 0 }; /* the flags are in a register of their own */
static inline unsigned circe__get_arithmetic(void) {
    unsigned long arithmetic;
    __asm__ volatile("mrs %0, fpcr" : "=r"(arithmetic));
    return (unsigned)arithmetic;
}
static inline void circe__set_arithmetic(unsigned arithmetic) {
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)arithmetic));
}
#else
enum { CIRCE__FLAGS = 0, CIRCE__ARITHMETIC = 0 };
static inline unsigned circe__get_arithmetic(void) { return CIRCE__ARITHMETIC; }
static inline void circe__set_arithmetic(unsigned arithmetic) { (void)arithmetic; }
#endif

/* Of the C locale; it stays until the process ends. */
CIRCE_ROOMS locale_t circe__plain_locale(void);

static inline circe__settings circe__settings_begin(void) {
    circe__settings before = {uselocale(circe__plain_locale()), circe__get_arithmetic()};
    if ((before.arithmetic & ~(unsigned)CIRCE__FLAGS) != CIRCE__ARITHMETIC) circe__set_arithmetic(CIRCE__ARITHMETIC);
    return before;
}

static inline void circe__settings_end(const circe__settings *before) {
    circe__set_arithmetic(before->arithmetic);
    uselocale(before->locale);
}

#define CIRCE_OWN_SETTINGS                                                                        \
    const circe__settings settings_before __attribute__((cleanup(circe__settings_end), unused)) = \
        circe__settings_begin()
