// SPDX-License-Identifier: Apache-2.0
/* analyze.h -- what analyzers cannot see in another file; tools/analyze includes it ahead of every file of src.
 *
 * mba_fail returns its code, which is never MBA_OK: who returned it has failed, and the caller does not go on. */
#include "core/status.h"
#define mba_fail(code, ...)  (mba_fail(code, __VA_ARGS__), (code))
#define mba_where(code, ...) (mba_where(code, __VA_ARGS__), (code))

#ifdef __cppcheck__ /* it reads no header of the system: the loops of jansson.h */
#define json_object_foreach(object, key, value) \
    for (key = json_object_iter_key(json_object_iter(object)); key && (value = json_object_get(object, key)); key = 0)
#define json_array_foreach(array, i, value) for (i = 0; (value = json_array_get(array, i)); i++)
#endif
