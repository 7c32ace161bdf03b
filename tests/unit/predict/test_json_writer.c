/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>

#include "predict/json_writer.h"

static GString *start(SimJsonWriter *writer, bool is_compact)
{
    GString *text = g_string_new(NULL);
    sim_json_writer_init(writer, text, is_compact);
    return text;
}

START_TEST(members_keep_their_order)
{
    SimJsonWriter writer;
    g_autoptr(GString) text = start(&writer, false);
    sim_json_writer_begin_object(&writer, NULL);
    sim_json_writer_uint(&writer, "z", 1);
    sim_json_writer_begin_array(&writer, "a");
    sim_json_writer_null(&writer, NULL);
    sim_json_writer_bool(&writer, NULL, true);
    sim_json_writer_end_array(&writer);
    sim_json_writer_begin_object(&writer, "empty");
    sim_json_writer_end_object(&writer);
    sim_json_writer_end_object(&writer);
    ck_assert_str_eq(text->str, "{\n  \"z\": 1,\n  \"a\": [\n    null,\n    true\n  ],\n"
                                "  \"empty\": {}\n}");
}
END_TEST

START_TEST(integers_are_exact_to_64_bits)
{
    SimJsonWriter writer;
    g_autoptr(GString) text = start(&writer, true);
    sim_json_writer_begin_array(&writer, NULL);
    sim_json_writer_uint(&writer, NULL, UINT64_MAX);
    sim_json_writer_int(&writer, NULL, INT64_MIN);
    sim_json_writer_end_array(&writer);
    ck_assert_str_eq(text->str, "[18446744073709551615,-9223372036854775808]");
}
END_TEST

static const struct {
    double value;
    const char *text;
} doubles[] = {
    {0, "0"},
    {0.1, "0.1"},
    {1.5, "1.5"},
    {1e300, "1e+300"},
    {0.1 + 0.2, "0.30000000000000004"}, /* not 0.3: it needs 17 digits */
    {1.0 / 3, "0.3333333333333333"},    /* 16 digits */
};

START_TEST(doubles_are_the_shortest_that_read_back)
{
    SimJsonWriter writer;
    g_autoptr(GString) text = start(&writer, true);
    sim_json_writer_double(&writer, NULL, doubles[_i].value);
    ck_assert_str_eq(text->str, doubles[_i].text);
}
END_TEST

START_TEST(text_is_escaped)
{
    SimJsonWriter writer;
    g_autoptr(GString) text = start(&writer, true);
    sim_json_writer_text(&writer, NULL, "a \"b\" \\ \n \x01 \xc3\xa4");
    ck_assert_str_eq(text->str, "\"a \\\"b\\\" \\\\ \\u000a \\u0001 \xc3\xa4\"");
}
END_TEST

START_TEST(trees_are_written_as_they_were_read)
{
    static const char input[] = "{\"b\":[1,2.5,-3],\"a\":{\"x\":null,\"y\":true},\"s\":\"t\"}";
    SimJsonWriter writer;
    g_autoptr(GString) text = start(&writer, true);
    g_autoptr(cJSON) tree = cJSON_Parse(input);
    sim_json_writer_tree(&writer, NULL, tree);
    ck_assert_str_eq(text->str, input);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json writer");
    TCase *json = tcase_create("json");
    tcase_add_test(json, members_keep_their_order);
    tcase_add_test(json, integers_are_exact_to_64_bits);
    tcase_add_loop_test(json, doubles_are_the_shortest_that_read_back, 0, G_N_ELEMENTS(doubles));
    tcase_add_test(json, text_is_escaped);
    tcase_add_test(json, trees_are_written_as_they_were_read);
    suite_add_tcase(suite, json);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0;
}
