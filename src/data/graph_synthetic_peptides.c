// SPDX-License-Identifier: Apache-2.0
/* graph_synthetic_peptides.c -- generator of graph_synthetic.h: chains of amino acids as graphs of their heavy atoms.
 *
 * Side chains are SMILES strings that start at the alpha carbon, and a small interpreter builds them: capitals are
 * atoms, small letters aromatic atoms, `=` makes the next bond double, brackets branch, digits join two atoms. Digit 9
 * is the backbone nitrogen, where proline closes its ring. */
#include <string.h>

#include "data/graph_draft.h"

enum { ACIDS = 20, RESIDUES_MAX = 50, ATOMS_MAX = 1024, NODE_FIELDS = 9, EDGE_FIELDS = 3, RINGS = 10, DEPTH = 4 };

static const struct {
    char        letter;
    double      percent;
    const char *side;
} acids[ACIDS] = {
    { 'A', 8.25, "C" },        { 'R', 8.53, "CCCNC(=N)N" },     { 'N', 3.06, "CC(=O)N" },      { 'D', 3.46, "CC(=O)O" },
    { 'C', 7.00, "CS" },       { 'Q', 2.93, "CCC(=O)N" },       { 'E', 3.72, "CCC(=O)O" },     { 'G', 8.07, "" },
    { 'H', 2.27, "Cc1cncn1" }, { 'I', 5.91, "C(C)CC" },         { 'L', 9.66, "CC(C)C" },       { 'K', 9.86, "CCCCN" },
    { 'M', 1.42, "CCSC" },     { 'F', 4.86, "Cc1ccccc1" },      { 'P', 4.87, "CCC9" },         { 'S', 5.84, "CO" },
    { 'T', 4.34, "C(O)C" },    { 'W', 2.08, "Cc1cnc2ccccc12" }, { 'Y', 2.75, "Cc1ccc(O)cc1" }, { 'V', 6.12, "C(C)C" },
};

#define PERCENTS 105.0 /* sum of the frequencies */

enum { SINGLE = 1, DOUBLE = 2, AROMATIC = 3 };

typedef struct bond {
    int a, b, kind;
} bond;

typedef struct molecule {
    int  atoms, bonds, ring[RINGS]; /* ring: the atom of an open ring bond, -1: none */
    char element[ATOMS_MAX];
    bool aromatic[ATOMS_MAX], in_ring[ATOMS_MAX];
    bond bond[2 * ATOMS_MAX];
} molecule;

static int add_atom(molecule *m, char element, bool aromatic)
{
    mba_assert(m->atoms < ATOMS_MAX);
    m->element[m->atoms] = element;
    m->aromatic[m->atoms] = m->in_ring[m->atoms] = aromatic;
    return m->atoms++;
}

static void add_bond(molecule *m, int a, int b, int kind)
{
    mba_assert(m->bonds < 2 * ATOMS_MAX);
    m->bond[m->bonds++] = (bond){ a, b, m->aromatic[a] && m->aromatic[b] ? AROMATIC : kind };
}

/* Adds a side chain to atom `from`; returns its last atom. */
static int add_chain(molecule *m, int from, const char *text)
{
    int branch[DEPTH], depth = 0, at = from, kind = SINGLE;
    for (; *text; text++) {
        if (*text == '(') branch[depth++] = at;
        else if (*text == ')') at = branch[--depth];
        else if (*text == '=') kind = DOUBLE;
        else if (*text >= '0' && *text <= '9') {
            int *open = &m->ring[*text - '0'];
            if (*open >= 0) add_bond(m, at, *open, SINGLE);
            *open = *open < 0 ? at : -1;
        } else {
            const bool small = *text >= 'a';
            const int  next = add_atom(m, small ? (char)(*text - 'a' + 'A') : *text, small);
            add_bond(m, at, next, kind);
            at = next;
            kind = SINGLE;
        }
    }
    return at;
}

/* Adds a residue after atom `before` (-1: the first); returns its carbonyl carbon. *last is the end of its side
 * chain. */
static int add_residue(molecule *m, int before, int acid, int *last)
{
    const int nitrogen = add_atom(m, 'N', false), alpha = add_atom(m, 'C', false);
    if (before >= 0) add_bond(m, before, nitrogen, SINGLE);
    add_bond(m, nitrogen, alpha, SINGLE);
    for (int k = 0; k < RINGS; k++) m->ring[k] = -1;
    m->ring[9] = nitrogen;
    *last = add_chain(m, alpha, acids[acid].side);
    if (acids[acid].letter == 'P')
        for (int i = nitrogen; i < m->atoms; i++) m->in_ring[i] = true;
    const int carbon = add_atom(m, 'C', false);
    add_bond(m, alpha, carbon, SINGLE);
    add_bond(m, carbon, add_atom(m, 'O', false), DOUBLE);
    return carbon;
}

static int draw_acid(mba_draft *d)
{
    double x = PERCENTS * mba__draw_unit(d);
    int    k = 0;
    while (k < ACIDS - 1 && x >= acids[k].percent) x -= acids[k++].percent;
    return k;
}

/* Draws from a gamma distribution of mean 19.4 and deviation 11.2, hence shape 3: the sum of three exponentials. */
static int64_t draw_length(mba_draft *d)
{
    double sum = 0;
    for (int k = 0; k < 3; k++) sum -= log(1 - mba__draw_unit(d));
    const double n = round(sum * 19.4 / 3);
    return n < 2 ? 2 : n > RESIDUES_MAX ? RESIDUES_MAX : (int64_t)n;
}

static void build(molecule *m, mba_draft *d, int64_t count[ACIDS])
{
    const int64_t length = draw_length(d);
    int           before = -1, sulphur[RESIDUES_MAX], sulphurs = 0;
    for (int64_t i = 0; i < length; i++) {
        const int acid = draw_acid(d);
        int       last;
        before = add_residue(m, before, acid, &last);
        count[acid]++;
        if (acids[acid].letter == 'C') sulphur[sulphurs++] = last;
    }
    add_bond(m, before, add_atom(m, 'O', false), SINGLE);
    while (sulphurs >= 2 && mba__draw_unit(d) < 0.6) { // disulphide bridges
        int pair[2];
        for (int k = 0; k < 2; k++) {
            const int64_t i = mba__draw_below(d, sulphurs);
            pair[k] = sulphur[i];
            sulphur[i] = sulphur[--sulphurs];
        }
        add_bond(m, pair[0], pair[1], SINGLE);
    }
}

/* ---- OGB's fields ---- */

static int atomic_number(char element) // counted from 0
{
    return element == 'C' ? 5 : element == 'N' ? 6 : element == 'O' ? 7 : 15;
}

/* Properties of an atom that follow from its bonds. */
typedef struct ends {
    int  degree, halves;
    bool doubled, flat;
} ends;

static ends *look_at_bonds(const molecule *m, mba_draft *d)
{
    ends *e = mba_arena_new(d->arena, ends, m->atoms);
    for (int k = 0; k < m->bonds; k++)
        for (int end = 0; end < 2; end++) {
            ends     *a = &e[end ? m->bond[k].b : m->bond[k].a];
            const int kind = m->bond[k].kind;
            a->degree++;
            a->halves += kind == SINGLE ? 2 : kind == DOUBLE ? 4 : 3;
            a->doubled = a->doubled || kind == DOUBLE;
            a->flat = a->flat || kind != SINGLE;
        }
    for (int k = 0; k < m->bonds; k++) { // a nitrogen beside C=O or C=N is flat too
        const int a = m->bond[k].a, b = m->bond[k].b;
        if (m->element[a] == 'N' && e[b].doubled) e[a].flat = true;
        if (m->element[b] == 'N' && e[a].doubled) e[b].flat = true;
    }
    return e;
}

static void code_atoms(const molecule *m, mba_draft *d)
{
    int32_t    *feat = mba_arena_new(d->arena, int32_t, m->atoms * NODE_FIELDS);
    const ends *e = look_at_bonds(m, d);
    for (int i = 0; i < m->atoms; i++) {
        const int     valence = m->element[i] == 'C' ? 4 : m->element[i] == 'N' ? 3 : 2;
        const int     unbound = valence - e[i].halves / 2, hydrogens = unbound > 0 ? unbound : 0;
        const bool    chiral = m->element[i] == 'C' && e[i].degree == 3 && !e[i].flat && hydrogens == 1;
        const int32_t row[NODE_FIELDS] = { atomic_number(m->element[i]),
                                           chiral ? 2 : 0,
                                           e[i].degree + hydrogens,
                                           5,
                                           hydrogens,
                                           0,
                                           e[i].flat ? 1 : 2,
                                           m->aromatic[i],
                                           m->in_ring[i] };
        memcpy(feat + (int64_t)i * NODE_FIELDS, row, sizeof row);
    }
    d->node_feat = feat;
}

/* Writes bonds in both directions: kind (single, double, triple, aromatic), stereo (none), conjugated (both ends
 * flat). */
static void code_bonds(const molecule *m, mba_draft *d)
{
    int32_t       *feat = mba_arena_new(d->arena, int32_t, m->bonds * 2 * EDGE_FIELDS);
    const int32_t *node = d->node_feat;
    mba__draft_edges(d, 2 * (int64_t)m->bonds);
    for (int k = 0; k < m->bonds; k++)
        for (int back = 0; back < 2; back++) {
            const int a = m->bond[k].a, b = m->bond[k].b;
            int32_t  *f = feat + d->edges * EDGE_FIELDS;
            f[0] = m->bond[k].kind == AROMATIC ? 3 : m->bond[k].kind - 1;
            f[2] = node[a * NODE_FIELDS + 6] == 1 && node[b * NODE_FIELDS + 6] == 1;
            mba__draft_edge(d, back ? b : a, back ? a : b);
        }
    d->edge_feat = feat;
}

/* ---- targets ---- */

/* Task `t`: a fixed random direction of the composition, about standard normal over the collection. */
static double composition(const int64_t count[ACIDS], double length, int t)
{
    double sum = 0, norm = 0;
    for (int k = 0; k < ACIDS; k++) {
        const double w = mba__fixed_normal("peptide tasks", (uint64_t)(t * ACIDS + k)), p = acids[k].percent / PERCENTS;
        sum += w * ((double)count[k] - length * p) / sqrt(length * p * (1 - p));
        norm += w * w;
    }
    return sum / sqrt(norm);
}

static void aim(mba_draft *d, const int64_t count[ACIDS], mba_synthetic kind)
{
    const bool func = kind == MBA_SYNTHETIC_PEPTIDES_FUNC;
    const int  tasks = (int)mba_synthetic_form(kind).label_width;
    float     *label = mba_arena_new(d->arena, float, tasks);
    double     length = 0;
    for (int k = 0; k < ACIDS; k++) length += (double)count[k];
    for (int t = 0; t < tasks; t++) {
        const double z = composition(count, length, t), size = (length - 19.4) / 11.2;
        label[t] = (float)(func ? z > 0.2 + 0.1 * t : cos(t) * size + sin(t) * z);
    }
    d->label = label;
}

void mba__draft_peptide(mba_draft *d, mba_synthetic kind)
{
    molecule *m = mba_arena_new(d->arena, molecule, 1);
    int64_t   count[ACIDS] = { 0 };
    build(m, d, count);
    code_atoms(m, d);
    code_bonds(m, d);
    aim(d, count, kind);
    d->nodes = m->atoms;
}
