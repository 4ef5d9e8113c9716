/* models.c -- the table made from models.def, and presets by name. */
#include <string.h>

#include "models/model.h"

#define MODEL(name) extern const mba_model mba_model_##name;
#include "models/models.def"
#undef MODEL

const mba_model *const mba_models[] = {
#define MODEL(name) &mba_model_##name,
#include "models/models.def"
#undef MODEL
    NULL,
};

const mba_lm *mba_lm_preset(const char *name)
{
    for (int i = 0; mba_models[i]; i++)
        for (const mba_lm *c = mba_models[i]->presets; c->name; c++)
            if (!strcmp(c->name, name)) return c;
    return NULL;
}
