// SPDX-License-Identifier: Apache-2.0
/* inspect_json_test.c -- `data inspect --json` of one path and of several: one JSON document, or nothing but the
 * error. */
#include "tests/program.h"

static void several_paths_are_one_array(void **state)
{
    (void)state;
    assert_int_equal(run("data inspect '%s/tokens' --json", scratch_dir), 0);
    json_t *one = json_output();
    assert_true(json_is_object(one));
    assert_int_equal(run("data inspect '%s/tokens' shapes --json", scratch_dir), 0);
    json_t *both = json_output();
    assert_int_equal(json_array_size(both), 2);
    assert_true(json_equal(json_array_get(both, 0), one));
    assert_string_equal(json_string_value(json_object_get(json_array_get(both, 1), "path")), "shapes");
    json_decref(one);
    json_decref(both);
}

static void a_path_that_is_not_there_prints_no_half(void **state)
{
    (void)state;
    says(run("data inspect '%s/tokens' nosuch --json 2>/dev/null | wc -c", scratch_dir), 0, "0");
    assert_string_equal(output, "0\n");
    says(run("data inspect '%s/tokens' nosuch --json", scratch_dir), 1, "cannot open 'nosuch'");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(several_paths_are_one_array),
                                        cmocka_unit_test(a_path_that_is_not_there_prints_no_half) };
    return cmocka_run_group_tests(tests, make_data, remove_data);
}
