// SPDX-License-Identifier: Apache-2.0
/* elf_test.c -- the files that were linked, as the loader reads them: no folder of others is searched for libraries,
 * and what makes faults harder to exploit is switched on. The same is true of what `cmake --install` copies.
 * libmambascope_kernels has the functions and the layout of structs that its number promises. */
#include <dlfcn.h>
#include <ftw.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/file.h"
#include "mba_kernels.h"
#include "tests/program.h"

/* ---- one file ---- */

typedef struct elf {
    const char *path;
    mba_map     map;
    const ElfW(Ehdr) * header;
    const ElfW(Phdr) * part;
    const ElfW(Dyn) * dynamic;
    size_t      entries;
    const char *strings;
    size_t      string_bytes;
} elf;

static const void *at_offset(const elf *e, size_t offset, size_t bytes)
{
    assert_true(offset <= e->map.bytes && bytes <= e->map.bytes - offset);
    return (const char *)e->map.data + offset;
}

static const ElfW(Phdr) * part_of(const elf *e, uint32_t type)
{
    for (int i = 0; i < e->header->e_phnum; i++)
        if (e->part[i].p_type == type) return &e->part[i];
    return NULL;
}

/* The first entry of the dynamic section with this tag from `from` on; NULL: there is none. */
static const ElfW(Dyn) * entry_from(const elf *e, size_t from, int64_t tag)
{
    for (size_t i = from; i < e->entries && e->dynamic[i].d_tag != DT_NULL; i++)
        if (e->dynamic[i].d_tag == tag) return &e->dynamic[i];
    return NULL;
}

static uint64_t value_of(const elf *e, int64_t tag)
{
    const ElfW(Dyn) *d = entry_from(e, 0, tag);
    return d ? d->d_un.d_val : 0;
}

static size_t offset_of(const elf *e, uint64_t address)
{
    for (int i = 0; i < e->header->e_phnum; i++)
        if (e->part[i].p_type == PT_LOAD && address >= e->part[i].p_vaddr
            && address - e->part[i].p_vaddr < e->part[i].p_filesz)
            return (size_t)(address - e->part[i].p_vaddr + e->part[i].p_offset);
    fail_msg("%s: no bytes for the address %#llx", e->path, (unsigned long long)address);
    return 0;
}

static void elf_open(elf *e, const char *path)
{
    *e = (elf){ .path = path };
    assert_ok(mba_file_map(&e->map, path));
    e->header = at_offset(e, 0, sizeof *e->header);
    assert_memory_equal(e->header->e_ident, ELFMAG, SELFMAG);
    e->part = at_offset(e, e->header->e_phoff, e->header->e_phnum * sizeof *e->part);
    const ElfW(Phdr) *dynamic = part_of(e, PT_DYNAMIC);
    assert_non_null(dynamic);
    e->dynamic = at_offset(e, dynamic->p_offset, dynamic->p_filesz);
    e->entries = dynamic->p_filesz / sizeof *e->dynamic;
    e->string_bytes = value_of(e, DT_STRSZ);
    e->strings = at_offset(e, offset_of(e, value_of(e, DT_STRTAB)), e->string_bytes);
}

static void elf_close(elf *e) { mba_file_unmap(&e->map); }

static const char *string_of(const elf *e, const ElfW(Dyn) * d)
{
    assert_true(d->d_un.d_val < e->string_bytes);
    return e->strings + d->d_un.d_val;
}

/* ---- where the loader looks ---- */

/* Whether anybody may make files in the folder, or put another in the place of it or of one above it. */
static bool is_open_to_all(const char *folder)
{
    char        path[4096];
    struct stat is;
    bool        missing = true; // so far: who may make it
    snprintf(path, sizeof path, "%s", folder);
    for (;;) {
        const bool there = stat(path, &is) == 0;
        if (there && (is.st_mode & S_IWOTH) && (missing || !(is.st_mode & S_ISVTX))) return true;
        missing = missing && !there;
        char *slash = strrchr(path, '/');
        if (!slash || !path[1]) return false;
        slash[slash == path] = 0;
    }
}

/* Every element is an absolute path of a folder that not everybody may write to. */
static bool is_safe_path(const char *path)
{
    for (const char *from = path;; from++) {
        char         folder[4096];
        const size_t n = strcspn(from, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)n, from);
        if (folder[0] != '/' || strstr(folder, "$") || strstr(folder, "/../") || is_open_to_all(folder)) return false;
        from += n;
        if (!*from) return true;
    }
}

static void check_search_paths(const elf *e)
{
    static const int64_t tags[] = { DT_RPATH, DT_RUNPATH };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        const ElfW(Dyn) *d = entry_from(e, 0, tags[i]);
        if (d && !is_safe_path(string_of(e, d))) fail_msg("%s searches [%s] for libraries", e->path, string_of(e, d));
    }
}

static void unsafe_paths_are_told_apart(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",      ":",       "/usr/lib:", ":/usr/lib",     "/usr/lib::/lib",          "lib",        "/usr/lib:lib",
        "./lib", "$ORIGIN", "/tmp",      "/usr/lib:/tmp", "/tmp/no such folder/lib", "/usr/../tmp"
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (is_safe_path(bad[i])) fail_msg("[%s] is taken for safe", bad[i]);
    assert_true(is_safe_path("/usr/lib"));
    assert_true(is_safe_path("/usr/lib:/no such folder/lib"));
}

/* ---- hardening ---- */

static bool imports(const elf *e, const char *name)
{
    const size_t n = strlen(name) + 1;
    for (size_t i = 0; i + n <= e->string_bytes; i += strlen(e->strings + i) + 1)
        if (!memcmp(e->strings + i, name, n)) return true;
    return false;
}

/* Whether a function of the C library is called in the form that knows how large its buffer is: __memcpy_chk and
 * others. */
static bool imports_checked(const elf *e)
{
    for (size_t i = 0; i < e->string_bytes; i += strlen(e->strings + i) + 1) {
        const size_t n = strlen(e->strings + i);
        if (n > 6 && !strncmp(e->strings + i, "__", 2) && !strcmp(e->strings + i + n - 4, "_chk")) return true;
    }
    return false;
}

static void check_hardening(const elf *e)
{
    const ElfW(Phdr) *stack = part_of(e, PT_GNU_STACK);
    const bool now = entry_from(e, 0, DT_BIND_NOW) || (value_of(e, DT_FLAGS) & DF_BIND_NOW)
                     || (value_of(e, DT_FLAGS_1) & DF_1_NOW);
    if (e->header->e_type != ET_DYN) fail_msg("%s is not position-independent", e->path);
    if (!now) fail_msg("%s is bound lazily: its table of functions stays writable", e->path);
    if (!part_of(e, PT_GNU_RELRO)) fail_msg("%s has no read-only relocations", e->path);
    if (!stack || (stack->p_flags & PF_X)) fail_msg("%s has an executable stack", e->path);
    if (getenv("MBA_TEST_SANITIZED")) return; // a sanitizer finds more than these two, and they disturb it
    if (!imports(e, "__stack_chk_fail")) fail_msg("%s has no stack protector", e->path);
    if (!imports_checked(e)) fail_msg("%s has no _FORTIFY_SOURCE", e->path);
}

static void check_file(const char *path)
{
    elf e;
    elf_open(&e, path);
    check_search_paths(&e);
    check_hardening(&e);
    elf_close(&e);
}

/* A file beside the program, which is its build. */
static const char *beside(const char *name)
{
    static char path[4096];
    const char *program = getenv("MBA_PROGRAM"), *slash = strrchr(program, '/');
    assert_non_null(slash);
    snprintf(path, sizeof path, "%.*s/%s", (int)(slash - program), program, name);
    return path;
}

static void the_build_is_hardened(void **state)
{
    (void)state;
    check_file(getenv("MBA_PROGRAM"));
    check_file(beside("libmambascope_kernels.so"));
    if (!access(beside("libmambascope_mpi.so"), F_OK)) check_file(beside("libmambascope_mpi.so"));
    if (!access(beside("libmambascope_inject.so"), F_OK)) check_file(beside("libmambascope_inject.so"));
}

static int installed;

static int check_installed(const char *path, const struct stat *is, int type, struct FTW *where)
{
    char magic[SELFMAG] = "";
    (void)is, (void)where;
    if (type != FTW_F) return 0;
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const bool is_elf = fread(magic, 1, sizeof magic, f) == sizeof magic && !memcmp(magic, ELFMAG, SELFMAG);
    fclose(f);
    if (is_elf) check_file(path), installed++;
    return 0;
}

static void what_is_installed_is_hardened(void **state)
{
    char        line[8192];
    const char *cmake = getenv("MBA_CMAKE");
    (void)state;
    if (!cmake) skip();
    snprintf(line, sizeof line, "'%s' --install '%s' --prefix '%s/installed' 2>&1", cmake, beside("."), scratch_dir);
    says(shell(line), 0, "");
    installed = 0;
    assert_int_equal(nftw(scratch("installed"), check_installed, 8, FTW_PHYS), 0);
    assert_true(installed >= 2);
}

/* Whoever unpacks a checkpoint of others and looks at it there does not run its libraries. */
static void libraries_of_the_current_folder_are_not_loaded(void **state)
{
    elf  e;
    int  needed = 0;
    char line[8192];
    (void)state;
    elf_open(&e, getenv("MBA_PROGRAM"));
    for (const ElfW(Dyn) *d = e.dynamic; (d = entry_from(&e, (size_t)(d - e.dynamic), DT_NEEDED)); d++, needed++)
        put(scratch(string_of(&e, d)), "this is no library, and whoever loads it says so\n");
    elf_close(&e);
    assert_true(needed > 2);
    snprintf(line, sizeof line, "cd '%s' && '%s' --version 2>&1", scratch_dir, getenv("MBA_PROGRAM"));
    says(shell(line), 0, "mambascope ");
}

/* ---- what libmambascope_kernels promises ---- */

static char promise[1 << 14];

__attribute__((format(printf, 1, 2))) static void promised(const char *fmt, ...)
{
    const size_t n = strlen(promise);
    va_list      more;
    va_start(more, fmt);
    vsnprintf(promise + n, sizeof promise - n, fmt, more);
    va_end(more);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The functions that programs can link with, by name. */
static void promised_functions(const elf *e)
{
    const char *names[256];
    size_t      n = 0;
    const ElfW(Shdr) *section = at_offset(e, e->header->e_shoff, e->header->e_shnum * sizeof *section);
    for (int i = 0; i < e->header->e_shnum; i++) {
        if (section[i].sh_type != SHT_DYNSYM) continue;
        const ElfW(Sym) *symbol = at_offset(e, section[i].sh_offset, section[i].sh_size);
        for (size_t k = 0; k < section[i].sh_size / sizeof *symbol; k++)
            if (symbol[k].st_shndx != SHN_UNDEF && ELF64_ST_BIND(symbol[k].st_info) == STB_GLOBAL) {
                assert_true(n < sizeof names / sizeof *names && symbol[k].st_name < e->string_bytes);
                names[n++] = e->strings + symbol[k].st_name;
            }
    }
    qsort(names, n, sizeof *names, by_name);
    for (size_t i = 0; i < n; i++) promised("function %s\n", names[i]);
}

/* Every field: offset and size. A field that is missing here leaves a gap, or changes the size of its struct. */
static void promised_layout(void)
{
#define STRUCT(s) promised("struct mba_kernels_%s %zu\n", #s, sizeof(mba_kernels_##s))
#define FIELD(s, f) \
    promised("field mba_kernels_%s.%s %zu %zu\n", #s, #f, offsetof(mba_kernels_##s, f), sizeof((mba_kernels_##s *)0)->f)
    STRUCT(window);
    FIELD(window, stride);
    FIELD(window, skew);
    STRUCT(strided_view);
    FIELD(strided_view, stride);
    FIELD(strided_view, skew);
    STRUCT(desc);
    FIELD(desc, bytes);
    FIELD(desc, op);
    FIELD(desc, type);
    FIELD(desc, batch);
    FIELD(desc, length);
    FIELD(desc, heads);
    FIELD(desc, head_dim);
    FIELD(desc, groups);
    FIELD(desc, state);
    FIELD(desc, chunk);
    FIELD(desc, given);
    FIELD(desc, d_per_channel);
    FIELD(desc, final);
    FIELD(desc, backward);
    FIELD(desc, dt_min);
    FIELD(desc, dt_max);
    FIELD(desc, window);
    FIELD(desc, view);
    FIELD(desc, variant);
    STRUCT(machine);
    FIELD(machine, cc);
    FIELD(machine, sms);
    FIELD(machine, regs_sm);
    FIELD(machine, threads_sm);
    FIELD(machine, smem_block_bytes);
    FIELD(machine, smem_sm_bytes);
    STRUCT(pointers);
    FIELD(pointers, in);
    FIELD(pointers, out);
    FIELD(pointers, dout);
    FIELD(pointers, din);
    FIELD(pointers, saved);
    FIELD(pointers, work);
#undef STRUCT
#undef FIELD
}

static void promised_values(void)
{
#define VALUE(v) promised("value MBA_KERNELS_%s %d\n", #v, MBA_KERNELS_##v)
    VALUE(SSD);
    VALUE(SCAN);
    VALUE(F32);
    VALUE(BF16);
    VALUE(X);
    VALUE(DT);
    VALUE(B);
    VALUE(C);
    VALUE(Z);
    VALUE(A_LOG);
    VALUE(D);
    VALUE(DT_BIAS);
    VALUE(IDS);
    VALUE(INITIAL);
    VALUE(OPERANDS);
    VALUE(ACTIVATIONS);
    VALUE(Y);
    VALUE(FINAL);
    VALUE(RESULTS);
    VALUE(CONV1D);
    VALUE(GATED_NORM);
    VALUE(WEIGHT);
    VALUE(BIAS);
    VALUE(GRADS_DENSE);
    VALUE(GRADS_STRIDED);
#undef VALUE
}

/* Functions of other types do not compile here. */
static void promised_types(void)
{
    int (*create)(mba_kernels_plan **, const mba_kernels_desc *, const mba_kernels_machine *) = mba_kernels_plan_create;
    int (*run[])(const mba_kernels_plan *, const mba_kernels_pointers *, void *) = { mba_kernels_forward,
                                                                                     mba_kernels_backward };
    void (*destroy)(mba_kernels_plan *) = mba_kernels_plan_destroy;
    size_t (*saved)(const mba_kernels_plan *) = mba_kernels_saved_bytes;
    size_t (*work)(const mba_kernels_plan *, int) = mba_kernels_work_bytes;
    const char *(*variant)(const mba_kernels_plan *, int) = mba_kernels_variant;
    const char *(*text[])(void) = { mba_kernels_error, mba_kernels_version };
    assert_true(create && run[0] && run[1] && destroy && saved && work && variant && text[0] && text[1]);
}

/* src/kernels/abi.N, where N is the number in the library's name: programs that were linked with .so.N keep running. */
static void the_kernels_keep_their_promise(void **state)
{
    elf         e;
    char        path[64], *text, *left = NULL, *left_made = NULL;
    size_t      bytes;
    const char *number;
    (void)state;
    promised_types();
    elf_open(&e, beside("libmambascope_kernels.so"));
    const ElfW(Dyn) *soname = entry_from(&e, 0, DT_SONAME);
    assert_non_null(soname);
    number = strstr(string_of(&e, soname), ".so.");
    if (!number) fail_msg("'%s' has no number", string_of(&e, soname));
    snprintf(path, sizeof path, "src/kernels/abi.%s", number + 4);
    promise[0] = 0;
    promised_functions(&e);
    promised_layout();
    promised_values();
    elf_close(&e);
    assert_ok(mba_file_read(&text, &bytes, path, 1 << 16));
    char *made = strtok_r(promise, "\n", &left_made);
    for (char *line = strtok_r(text, "\n", &left); line; line = strtok_r(NULL, "\n", &left)) {
        if (*line == '#') continue;
        if (!made || strcmp(line, made))
            fail_msg("%s promises '%s', the library has '%s': undo it, or raise MBA_SOVERSION in CMakeLists.txt and "
                     "write the next "
                     "abi file",
                     path, line, made ? made : "nothing");
        made = strtok_r(NULL, "\n", &left_made);
    }
    if (made) fail_msg("the library has '%s', which %s does not promise: add the line", made, path);
    free(text);
}

/* ---- the injection library ---- */

/* In a process of its own: does the library begin to watch it? 0: yes, a trace was begun; 1: no. */
static int inject(const char *library, const char *trace)
{
    int (*start)(void);
    void *opened = dlopen(library, RTLD_NOW);
    if (!opened) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    *(void **)&start = dlsym(opened, "InitializeInjection");
    setenv("MAMBASCOPE_TRACE", trace, 1);
    if (!start || start() != 1) return 3;
    struct stat is; // access() would ask for the other user
    return stat(trace, &is) ? 1 : 0;
}

/* `who` is the user whose process starts one with the rights of root: the loader then calls it secure, as one that is
 * set-uid. */
static int inject_as(uid_t who, const char *trace)
{
    int         status;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char library[4096];
        snprintf(library, sizeof library, "%s", beside("libmambascope_inject.so"));
        if (setresuid(who, 0, 0)) _exit(4);
        execl("/proc/self/exe", "elf_test", library, trace, (char *)NULL);
        _exit(5);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void programs_with_rights_of_others_are_not_watched(void **state)
{
    (void)state;
    if (geteuid() || access(beside("libmambascope_inject.so"), F_OK) || getenv("MBA_TEST_SANITIZED")) skip();
    assert_int_equal(inject_as(0, scratch("root.trace")), 0);
    const int others = inject_as(65534, scratch("others.trace"));
    if (others == 127 && getenv("LD_LIBRARY_PATH")) skip(); // the loader forgets the path where this machine has cmocka
    assert_int_equal(others, 1);
}

static int begin(void **state)
{
    (void)state;
    scratch_make();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsafe_paths_are_told_apart),
        cmocka_unit_test(the_build_is_hardened),
        cmocka_unit_test(what_is_installed_is_hardened),
        cmocka_unit_test(libraries_of_the_current_folder_are_not_loaded),
        cmocka_unit_test(the_kernels_keep_their_promise),
        cmocka_unit_test(programs_with_rights_of_others_are_not_watched),
    };
    if (argc == 3) return inject(argv[1], argv[2]);
    return cmocka_run_group_tests(tests, begin, remove_data);
}
