// SPDX-License-Identifier: Apache-2.0
/* features.c -- see features.h. */
#include "cli/features.h"

#include <cblas.h>
#include <gnu/libc-version.h>
#include <jansson.h>
#include <sqlite3.h>

#include <jpeglib.h> // needs stdio.h before it
#include <png.h>
#ifdef MBA_ZSTD
#include <zstd.h>
#endif
#ifdef MBA_ZLIB
#include <zlib.h>
#endif

#include "cluster/join.h"
#include "core/sources.h"
#include "core/version.h"

#define WORDS_(x) #x
#define WORDS(x)  WORDS_(x)

const mba_feature *mba_features_libraries(void)
{
    static mba_feature all[] = {
        { "OpenBLAS", NULL, "" },
        { "Jansson", JANSSON_VERSION, "" },
        { "SQLite", NULL, "" },
#ifdef LIBJPEG_TURBO_VERSION
        { "libjpeg", "turbo " WORDS(LIBJPEG_TURBO_VERSION), "" },
#else
        { "libjpeg", WORDS(JPEG_LIB_VERSION),
          "libjpeg-turbo decodes several times as fast: install libjpeg-dev of Debian or Ubuntu" },
#endif
        { "libpng", NULL, "" },
        { "zlib", "not in this build", "needed to read gzip-compressed data: install zlib1g-dev, then build again" },
        { "zstd", "not in this build", "needed to read zstd-compressed text: install libzstd-dev, then build again" },
        { "MPI", NULL, "" },
        { 0 },
    };
    all[0].found = openblas_get_config();
    all[2].found = sqlite3_libversion();
    all[4].found = png_get_libpng_ver(NULL);
    all[7] = mba_cluster_has_mpi()
                 ? (mba_feature){ "MPI", "plug-in, opened for several ranks", "" }
                 : (mba_feature){ "MPI", "not in this build",
                                  "needed for several ranks: install libopenmpi-dev, then build again" };
#ifdef MBA_ZLIB
    all[5] = (mba_feature){ "zlib", zlibVersion(), "" };
#endif
#ifdef MBA_ZSTD
    all[6] = (mba_feature){ "zstd", ZSTD_versionString(), "" };
#endif
    return all;
}

static void line(FILE *f, const char *name, const char *found) { fprintf(f, "%-10s %s\n", name, found); }

void mba_features_print(FILE *f)
{
    fputs("mambascope " MBA_VERSION, f);
    if (*MBA_COMMIT) fputs(" " MBA_COMMIT, f);
    fputc('\n', f);
    line(f, "sources", MBA_SOURCES);
#ifdef __clang__
    line(f, "compiler", "clang " __clang_version__);
#else
    line(f, "compiler", "gcc " __VERSION__);
#endif
    line(f, "C library", gnu_get_libc_version());
    line(f, "CPU", "kernels for " MBA_BUILT_ISAS);
    line(f, "GPU", *MBA_BUILT_GPUS == 's' ? "kernels for " MBA_BUILT_GPUS : MBA_BUILT_GPUS);
    for (const mba_feature *l = mba_features_libraries(); l->name; l++) line(f, l->name, l->found);
}
