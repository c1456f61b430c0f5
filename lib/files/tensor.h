/* What reading and writing .safetensors share. */
#pragma once

#include <stddef.h>

/* Bytes of an element of this dtype ("F64", "BOOL", ...); 0: .safetensors knows no such dtype. */
size_t circe__tensor_element(const char *dtype);
