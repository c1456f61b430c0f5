/* Names the functions of glibc that are newer than 2.28 in the version before: those of 2.29 differ in how errors are
 * reported through errno alone. Included before everything else in builds for wheels (cmake/manylinux.cmake). */
#if defined(__x86_64__)
#define OLD "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define OLD "GLIBC_2.17"
#endif
#define AS_BEFORE(name) __asm__(".symver " #name "," #name "@" OLD)
AS_BEFORE(exp);
AS_BEFORE(exp2);
AS_BEFORE(log);
AS_BEFORE(log2);
AS_BEFORE(pow);
#undef AS_BEFORE
#undef OLD
