/* inspect_sets.c -- images and graphs, as inspect.h shows them. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "data/graph_pack.h"
#include "data/graph_readers.h"
#include "data/idx.h"
#include "data/image_set.h"
#include "data/listing.h"

enum {
    SAMPLED          = 200,
    CLASSES_MAX      = 1 << 20,
    CIFAR_10         = 3073,
    CIFAR_100        = 3074,
    WHOLE_LABELS_MAX = 1000,
    LISTED_MAX       = 4096
};

/* ---- images ---- */

/* A list of counts by class; of very many classes only those that occur. `names` may be NULL. */
static void tell_classes(json_t *to, const int64_t *count, int64_t classes, const mba_image_set *names)
{
    json_t *list = json_array();
    for (int64_t c = 0; c < classes; c++) {
        if (classes > LISTED_MAX && !count[c]) continue;
        char        number[24];
        const char *name = names ? mba_image_set_class(names, (int32_t)c) : NULL;
        snprintf(number, sizeof number, "%" PRId64, c);
        mba__fact_count(list, name ? name : number, count[c]);
    }
    json_object_set_new(to, "class_counts", list);
}

static mba_status count_classes(json_t *to, const mba_image_set *s)
{
    int64_t  wrong = 0;
    int64_t *count = calloc((size_t)s->classes, sizeof *count);
    if (!count) return mba_fail(MBA_E_NOMEM, "no memory to count %" PRId64 " classes", s->classes);
    for (int64_t i = 0; i < s->count; i++) {
        const int32_t label = mba_image_set_label(s, i);
        if (label < s->classes) count[label]++;
        else                    wrong++;
    }
    mba__fact_int(to, "classes", s->classes);
    if (wrong) mba__fact_int(to, "labels_out_of_range", wrong);
    tell_classes(to, count, s->classes, s);
    free(count);
    return MBA_OK;
}

typedef struct image_count {
    mba_spread W, H, bytes;
    int64_t    sampled, damaged;
    char       first_damaged[512];
} image_count;

/* Decodes the whole file, small: what is cut short is noticed. */
static mba_status look_at_jpeg(image_count *c, mba_image *m, const mba_sample *p)
{
    mba_jpeg *j = NULL;
    MBA_TRY(mba_jpeg_open(&j, p->name, p->jpeg, p->jpeg_bytes));
    const mba_jpeg_about a  = mba_jpeg_look(j);
    const mba_status     st = mba_jpeg_read(j, m, 8, INT32_MAX);
    mba_jpeg_close(j);
    if (st != MBA_OK) return st;
    mba__spread_add(&c->W, a.W);
    mba__spread_add(&c->H, a.H);
    mba__spread_add(&c->bytes, (double)p->jpeg_bytes);
    return MBA_OK;
}

static mba_status show_image(mba_report *r, const mba_image_set *s, mba_image *m, const mba_sample *p)
{
    char        number[32];
    const char *name = mba_image_set_class(s, p->label);
    if (r->pictures == MBA_PICTURES) return MBA_OK;
    if (p->jpeg) MBA_TRY(mba_jpeg_decode(m, p->name, p->jpeg, p->jpeg_bytes));
    snprintf(number, sizeof number, "class %" PRId32, p->label);
    return mba__report_picture(r, p->jpeg ? m : &p->image, name ? name : number);
}

static mba_status look_at_image(mba_report *r, image_count *c, mba_image *m, const mba_image_set *s, int64_t i,
                                mba_sample *p)
{
    mba_status st = mba_image_set_read(s, i, p);
    if (st == MBA_OK && p->jpeg) st = look_at_jpeg(c, m, p);
    if (st == MBA_OK) st = show_image(r, s, m, p);
    c->sampled++;
    if (st != MBA_E_FORMAT && st != MBA_E_UNSUPPORTED) return st;
    if (!c->damaged++) snprintf(c->first_damaged, sizeof c->first_damaged, "%s", p->name);
    return MBA_OK;
}

/* The first images, for pictures, then some from all over the set. */
static mba_status sample_images(mba_report *r, json_t *to, const mba_image_set *s)
{
    image_count   c = { .sampled = 0 };
    mba_sample    p = { 0 };
    mba_image     m = { 0 };
    const int64_t n = s->count < SAMPLED ? s->count : SAMPLED;
    mba_status    st = MBA_OK;
    for (int64_t i = 0; st == MBA_OK && i < n; i++)
        st = look_at_image(r, &c, &m, s, i < MBA_PICTURES || n == s->count ? i : i * s->count / n, &p);
    if (s->W) mba__fact_int(to, "width", s->W);
    if (s->H) mba__fact_int(to, "height", s->H);
    mba__fact_spread(to, "width", &c.W, false);
    mba__fact_spread(to, "height", &c.H, false);
    mba__fact_spread(to, "file_bytes", &c.bytes, false);
    mba__fact_int(to, "sampled", c.sampled);
    mba__fact_int(to, "damaged", c.damaged);
    if (c.damaged) mba__fact_text(to, "first_damaged", c.first_damaged);
    mba_sample_free(&p);
    mba_image_free(&m);
    return st;
}

/* Under the name of the part, or with the other facts where there is no such name. */
static mba_status tell_part(mba_report *r, const mba_image_set *s, const char *part)
{
    json_t *to = r->facts;
    if (part) json_object_set_new(r->facts, part, to = json_object());
    mba__fact_int(to, "images", s->count);
    MBA_TRY(sample_images(r, to, s));
    return count_classes(to, s);
}

static void tell_kind(mba_report *r, const mba_image_set *s)
{
    static const struct { const char *name, *format, *about; } kinds[] = {
        { "folder", "image-folder", "JPEG images, a folder per class" },
        { "shards", "webdataset", "WebDataset shards (tar)" },
        { "cifar10", "cifar-10", "CIFAR-10, binary version" },
        { "cifar100", "cifar-100", "CIFAR-100, binary version" },
        { "mnist", "mnist", "images and labels in IDX files (MNIST)" },
        { "shapes", "shapes", "ten classes of shapes, SYNTHETIC" },
        { "synthetic", "synthetic", "made-up photographs, SYNTHETIC" },
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, s->kind->name)) mba__fact_format(r, kinds[i].format, kinds[i].about);
}

static mba_status tell_set(mba_report *r, mba_image_set *s, const char *part)
{
    tell_kind(r, s);
    const mba_status st = tell_part(r, s, part);
    mba_image_set_close(s);
    return st;
}

/* True: both parts begin with the same file, so that there is only one. */
static bool same_part(const mba_image_set *a, const mba_image_set *b)
{
    mba_sample x = { 0 }, y = { 0 };
    const bool same = mba_image_set_read(a, 0, &x) == MBA_OK && mba_image_set_read(b, 0, &y) == MBA_OK && x.jpeg
                      && !strcmp(x.name, y.name);
    mba_sample_free(&x);
    mba_sample_free(&y);
    return same;
}

mba_status mba__inspect_image_folder(mba_report *r)
{
    mba_image_set   *train = NULL, *held = NULL;
    const mba_status first = mba_image_set_open(&train, &(mba_image_set_options){ .path = r->path });
    if (first != MBA_OK && first != MBA_E_IO)
        return mba_where(first, "'%s', in which nothing else was recognised", r->path);
    const mba_status second = mba_image_set_open(&held, &(mba_image_set_options){.path = r->path, .validation = true});
    if (second != MBA_OK && second != MBA_E_IO) {
        mba_image_set_close(train);
        return second;
    }
    if (first != MBA_OK && second != MBA_OK)                      // tell of the part that everybody needs
        return mba_image_set_open(&train, &(mba_image_set_options){ .path = r->path });
    if (train && held && same_part(train, held)) {
        mba_image_set_close(held);
        held = NULL;
    }
    mba_status st = train ? tell_set(r, train, "training") : MBA_OK;
    if (st == MBA_OK && held) return tell_set(r, held, "held_out");
    mba_image_set_close(held);
    return st;
}

/* ---- image files ---- */

static bool is_tar(const mba_map *m)
{
    return m->bytes >= 512 && !memcmp((const char *)m->data + 257, "ustar", 5);
}

/* Records with labels in their range, but for one in a hundred: those are damage. */
static bool is_cifar(const mba_map *m, bool fine)
{
    const uint8_t *p      = m->data;
    const size_t   record = fine ? CIFAR_100 : CIFAR_10;
    size_t         wrong  = 0;
    if (m->bytes % record) return false;
    for (size_t at = 0; at < m->bytes; at += record) wrong += fine ? p[at] >= 20 || p[at + 1] >= 100 : p[at] >= 10;
    return wrong * 100 <= m->bytes / record;
}

/* The header of another kind of file could look like this one; the size, or the name, decides. */
static bool is_idx(const mba_report *r, const mba_map *m)
{
    const uint8_t *p = m->data;
    mba_idx        x;
    if (m->bytes < 4 || p[0] || p[1] || p[2] < MBA_IDX_U8 || p[2] > MBA_IDX_F64 || !p[3] || p[3] > MBA_IDX_RANK)
        return false;
    return mba_ends_with(r->path, "-ubyte") || mba_idx_parse(&x, r->path, m->data, m->bytes) == MBA_OK;
}

static mba_status show_idx(mba_report *r, const mba_idx *x)
{
    const int64_t n = x->size[1] * x->size[2];
    mba_image     m = { 0 };
    mba_status    st = MBA_OK;
    for (int64_t i = 0; st == MBA_OK && i < x->size[0] && i < MBA_PICTURES; i++) {
        char caption[32];
        snprintf(caption, sizeof caption, "image %" PRId64, i);
        st = mba_image_reshape(&m, (int32_t)x->size[2], (int32_t)x->size[1]);
        for (int64_t k = 0; st == MBA_OK && k < 3 * n; k++) m.rgb[k] = x->data[i * n + k / 3];
        if (st == MBA_OK) st = mba__report_picture(r, &m, caption);
    }
    mba_image_free(&m);
    return st;
}

static mba_status inspect_idx(mba_report *r, const mba_map *m)
{
    static const char *const type[] = { "U8", "I8", "", "I16", "I32", "F32", "F64" };
    mba_idx    x;
    mba_spread value = { 0 };
    MBA_TRY(mba_idx_parse(&x, r->path, m->data, m->bytes));
    json_t *shape = json_array();
    for (int i = 0; i < x.rank; i++) json_array_append_new(shape, json_integer(x.size[i]));
    mba__fact_format(r, "idx", "one IDX array (a file of MNIST)");
    mba__fact_text(r->facts, "dtype", type[x.type - MBA_IDX_U8]);
    json_object_set_new(r->facts, "shape", shape);
    mba__fact_int(r->facts, "values", x.elems);
    if (x.type != MBA_IDX_U8) return MBA_OK;
    int64_t count[256] = { 0 };
    for (int64_t i = 0; i < x.elems; i++) {
        mba__spread_add(&value, x.data[i]);
        count[x.data[i]]++;
    }
    mba__fact_spread(r->facts, "value", &value, false);
    if (x.rank == 1 && x.elems) tell_classes(r->facts, count, (int64_t)value.high + 1, NULL);
    const bool drawn = x.rank == 3 && x.elems && x.size[1] <= 4096 && x.size[2] <= 4096;
    return drawn ? show_idx(r, &x) : MBA_OK;
}

bool mba__inspect_image_file(mba_status *st, mba_report *r, const mba_map *m)
{
    mba_image_set *s    = NULL;
    const bool     ten  = is_cifar(m, false), fine = !ten && is_cifar(m, true);
    if (is_idx(r, m)) *st = inspect_idx(r, m);
    else if (is_tar(m)) *st = mba_image_shards_open(&s, &(mba_image_set_options){ .path = r->path });
    else if (ten || fine) *st = mba_cifar_open_bytes(&s, r->path, m->data, m->bytes, fine);
    else return false;
    if (s) *st = tell_set(r, s, NULL);
    return true;
}

/* ---- graphs ---- */

static double label_at(const mba_graph_set *s, int64_t i)
{
    return s->form.label_type == MBA_GRAPH_F32   ? ((const float *)s->label)[i]
           : s->form.label_type == MBA_GRAPH_I32 ? ((const int32_t *)s->label)[i]
                                                 : ((const uint8_t *)s->label)[i];
}

/* Classes where the collection has them, and also where all labels are small whole numbers: OGB does not say. */
static mba_status tell_labels(json_t *to, const mba_graph_set *s)
{
    const int64_t rows = s->form.node_labels ? s->nodes : s->graphs, n = rows * s->form.label_width;
    mba_spread    value = { 0 };
    bool          whole = s->form.label_width == 1;
    for (int64_t i = 0; i < n; i++) {
        const double y = label_at(s, i);
        if (isnan(y)) continue;
        mba__spread_add(&value, y);
        whole = whole && y == floor(y) && y >= 0 && y < (s->form.classes ? CLASSES_MAX : WHOLE_LABELS_MAX);
    }
    mba__fact_text(to, "labels_of", s->form.node_labels ? "nodes" : "graphs");
    mba__fact_int(to, "label_width", s->form.label_width);
    mba__fact_int(to, "labels_missing", n - value.n);
    if (!whole || !value.n) mba__fact_spread(to, "label", &value, false);
    if (!whole || !value.n) return MBA_OK;
    const int64_t known = s->form.classes <= CLASSES_MAX ? s->form.classes : 0;
    const int64_t classes = known > value.high ? known : (int64_t)value.high + 1;
    int64_t      *count = calloc((size_t)classes, sizeof *count);
    if (!count) return mba_fail(MBA_E_NOMEM, "no memory to count %" PRId64 " classes", classes);
    for (int64_t i = 0; i < n; i++)
        if (!isnan(label_at(s, i))) count[(int64_t)label_at(s, i)]++;
    mba__fact_int(to, "classes", classes);
    tell_classes(to, count, classes, NULL);
    free(count);
    return MBA_OK;
}

static mba_status tell_sizes(json_t *to, const mba_graph_set *s)
{
    mba_spread nodes = { 0 }, edges = { 0 }, degree = { 0 };
    int64_t    most = 1;
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item i = mba_graph_set_item(s, g);
        mba__spread_add(&nodes, (double)i.nodes);
        mba__spread_add(&edges, (double)i.edges);
        if (i.nodes > most) most = i.nodes;
    }
    int64_t *out = malloc((size_t)most * sizeof *out);
    if (!out) return mba_fail(MBA_E_NOMEM, "no memory for the degrees of %" PRId64 " nodes", most);
    for (int64_t g = 0; g < s->graphs; g++) {
        const mba_graph_item i = mba_graph_set_item(s, g);
        memset(out, 0, (size_t)i.nodes * sizeof *out);
        for (int64_t k = 0; k < i.edges; k++) out[i.src[k]]++;
        for (int64_t v = 0; v < i.nodes; v++) mba__spread_add(&degree, (double)out[v]);
    }
    free(out);
    mba__fact_spread(to, "nodes_per_graph", &nodes, false);
    mba__fact_spread(to, "edges_per_graph", &edges, false);
    mba__fact_spread(to, "out_degree", &degree, true);
    return MBA_OK;
}

static void tell_features(json_t *to, const mba_graph_form *f)
{
    static const char *const type[] = { "none", "f32", "i32", "u8" };
    mba__fact_int(to, "node_features", f->node_width);
    if (f->node_width) mba__fact_text(to, "node_feature_type", type[f->node_type]);
    mba__fact_int(to, "edge_features", f->edge_width);
    if (f->edge_width) mba__fact_text(to, "edge_feature_type", type[f->edge_type]);
    if (f->lap_k) mba__fact_int(to, "laplacian_features", f->lap_k);
    if (f->rwse_k) mba__fact_int(to, "random_walk_features", f->rwse_k);
}

static void tell_split(json_t *to, const mba_graph_set *s)
{
    static const char *const name[MBA_SPLITS] = { "train", "valid", "test" };
    int64_t                  n[MBA_SPLITS] = { 0 };
    json_t                  *o = json_object();
    for (int64_t g = 0; g < s->graphs; g++) n[s->split[g]]++;
    for (int k = 0; k < MBA_SPLITS; k++) mba__fact_int(o, name[k], n[k]);
    json_object_set_new(to, "split", o);
}

static mba_status tell_graphs(mba_report *r, const mba_graph_set *s, bool labelled)
{
    json_t *to = r->facts;
    mba__fact_int(to, "graphs", s->graphs);
    mba__fact_int(to, "nodes", s->nodes);
    mba__fact_int(to, "edges", s->edges);
    json_object_set_new(to, "undirected", json_boolean(s->undirected));
    tell_features(to, &s->form);
    if (s->split && labelled) tell_split(to, s);
    MBA_TRY(tell_sizes(to, s));
    return labelled && s->label ? tell_labels(to, s) : MBA_OK;
}

static mba_status tell_store(mba_report *r, mba_graph_store *s, bool labelled)
{
    const mba_status st = tell_graphs(r, mba_graph_store_set(s), labelled);
    mba_graph_store_destroy(s);
    return st;
}

bool mba__inspect_graph_file(mba_status *st, mba_report *r, const mba_map *m)
{
    mba_graph_pack *p = NULL;
    if (m->bytes < 8 || memcmp(m->data, "GRAPHPK1", 8)) return false;
    *st = mba_graph_pack_open(&p, r->path);
    mba__fact_format(r, "graphpk", "graphs in one file (GRAPHPK1)");
    if (*st == MBA_OK) *st = tell_graphs(r, mba_graph_pack_set(p), true);
    mba_graph_pack_close(p);
    return true;
}

mba_status mba__inspect_edge_list(mba_report *r)
{
    mba_graph_store *s = NULL;
    mba_text_file    f = { 0 };
    MBA_TRY(mba_text_file_open(&f, r->path));
    mba_status st = mba__malnet_create(&s);
    if (st == MBA_OK) st = mba__malnet_add(s, &f.text, 0, MBA_SPLIT_TRAIN);
    mba__fact_format(r, "edge-list", "one graph as an edge list (MalNet)");
    if (st == MBA_OK) st = tell_graphs(r, mba_graph_store_set(s), false);
    mba_graph_store_destroy(s);
    mba_text_file_close(&f);
    return st;
}

/* ---- folders of graphs ---- */

static bool is_indicator(const char *name) { return mba_ends_with(name, "_graph_indicator.txt"); }
static bool is_edgelist(const char *name) { return mba_ends_with(name, ".edgelist"); }

/* True: the folder has a name that is wanted. */
static bool has_one(const char *folder, bool (*wanted)(const char *name))
{
    mba_listing l  = { 0 };
    const bool  ok = mba_listing_read(&l, folder, wanted) == MBA_OK && l.n;
    mba_listing_free(&l);
    return ok;
}

static mba_status inspect_tu(mba_report *r)
{
    mba_graph_store *s = NULL;
    MBA_TRY(mba_tu_dataset_read(&s, r->path));
    mba__fact_format(r, "tu-dataset", "a TUDataset in text files");
    return tell_store(r, s, true);
}

/* Labels as they are, edges once, and the first split scheme there is. */
static mba_status inspect_ogb(mba_report *r)
{
    mba_graph_store *s = NULL;
    mba_listing      l = { 0 };
    char             path[MBA_PATH];
    if (snprintf(path, sizeof path, "%s/split", r->path) < MBA_PATH && mba_is_folder(path))
        MBA_TRY(mba_listing_read(&l, path, NULL));
    const mba_ogb_options o  = { .scheme = l.n ? l.name[0] : NULL, .directed = true };
    mba_status            st = mba_ogb_csv_read(&s, r->path, &o);
    mba__fact_format(r, "ogb-csv", "an OGB collection in CSV files, every edge as listed");
    if (l.n) mba__fact_text(r->facts, "split_scheme", l.name[0]);
    mba_listing_free(&l);
    return st == MBA_OK ? tell_store(r, s, true) : st;
}

/* Calls `use` for every <class>/<family>/<file> below the folder, in order. */
typedef mba_status on_graph(mba_graph_store *s, const char *path, const char *id);

static mba_status each_graph(mba_graph_store *s, const char *root, const char *below, int depth, on_graph *use)
{
    char        path[MBA_PATH], name[MBA_PATH];
    mba_listing l = { 0 };
    if (snprintf(path, sizeof path, "%s/%s", root, below) >= MBA_PATH) return mba_fail(MBA_E_ARG, "a path is too long");
    mba_status st = mba_listing_read(&l, path, depth == 2 ? is_edgelist : NULL);
    for (int64_t i = 0; st == MBA_OK && i < l.n; i++) {
        const int n = snprintf(name, sizeof name, "%s%s%s", below, *below ? "/" : "", l.name[i]);
        if (n >= MBA_PATH || snprintf(path, sizeof path, "%s/%s", root, name) >= MBA_PATH)
            st = mba_fail(MBA_E_ARG, "a path is too long");
        else if (depth == 2) st = use(s, path, name);
        else if (mba_is_folder(path)) st = each_graph(s, root, name, depth + 1, use);
    }
    mba_listing_free(&l);
    return st;
}

static mba_status add_graph(mba_graph_store *s, const char *path, const char *id)
{
    mba_text_file        f    = { 0 };
    const mba_named_text list = { path, id, strlen(id) };
    const char          *first;
    size_t               at = 0, n;
    int                  label;
    MBA_TRY(mba__malnet_next(&first, &n, &label, &list, &at));
    MBA_TRY(mba_text_file_open(&f, path));
    const mba_status st = mba__malnet_add(s, &f.text, label, MBA_SPLIT_TRAIN);
    mba_text_file_close(&f);
    return st;
}

/* The folder of classes: this one, or where the archive unpacks to; NULL: this is no MalNet. */
static const char *malnet_root(char path[MBA_PATH], const char *folder)
{
    static const char *const below[] = { "", "/malnet-graphs-tiny", "/raw/malnet-graphs-tiny" };
    static const char *const classes[] = { "addisplay", "adware", "benign", "downloader", "trojan" };
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        for (size_t c = 0; c < sizeof classes / sizeof *classes; c++) {
            mba_listing families = { 0 };
            bool        found    = false;
            const int   n = snprintf(path, MBA_PATH, "%s%s/%s", folder, below[i], classes[c]);
            if (n >= MBA_PATH || !mba_is_folder(path) || mba_listing_read(&families, path, NULL) != MBA_OK) continue;
            for (int64_t k = 0; k < families.n && !found; k++)
                found = snprintf(path + n, (size_t)(MBA_PATH - n), "/%s", families.name[k]) < MBA_PATH - n
                        && mba_is_folder(path) && has_one(path, is_edgelist);
            mba_listing_free(&families);
            path[n - (int)strlen(classes[c]) - 1] = 0;
            if (found) return path;
        }
    return NULL;
}

static mba_status inspect_malnet(mba_report *r, const char *root)
{
    mba_graph_store *s = NULL;
    MBA_TRY(mba__malnet_create(&s));
    mba_status st = each_graph(s, root, "", 0, add_graph);
    mba__fact_format(r, "malnet", "MalNet call graphs as edge lists");
    if (st == MBA_OK) st = tell_graphs(r, mba_graph_store_set(s), true);
    mba_graph_store_destroy(s);
    return st;
}

bool mba__inspect_graph_folder(mba_status *st, mba_report *r)
{
    char        path[MBA_PATH];
    const char *root;
    const bool  ogb = (snprintf(path, MBA_PATH, "%s/raw/num-node-list.csv", r->path) < MBA_PATH && mba_is_file(path)) ||
                     (snprintf(path, MBA_PATH, "%s/raw/num-node-list.csv.gz", r->path) < MBA_PATH && mba_is_file(path));
    if (has_one(r->path, is_indicator)) *st = inspect_tu(r);
    else if (ogb) *st = inspect_ogb(r);
    else if ((root = malnet_root(path, r->path)) != NULL) *st = inspect_malnet(r, root);
    else return false;
    return true;
}
