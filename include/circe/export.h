/* CIRCE_API marks the public symbols. Everything else is compiled with hidden visibility. */
#ifndef CIRCE_EXPORT_H
#define CIRCE_EXPORT_H

#if defined(_WIN32)
#define CIRCE_API
#else
#define CIRCE_API __attribute__((visibility("default")))
#endif

#if defined(__GNUC__)
#define CIRCE_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CIRCE_PRINTF(text, first)
#endif

#ifdef __cplusplus
#define CIRCE_BEGIN_DECLS extern "C" {
#define CIRCE_END_DECLS }
#else
#define CIRCE_BEGIN_DECLS
#define CIRCE_END_DECLS
#endif

#endif
