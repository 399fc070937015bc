"""Markup: data is escaped exactly once, whatever it holds."""

from reports.markup import Cell, TableRow, number, strong, table
from reports.numbers import percent, rate_in_words, seconds
from reports.page import script_json

HOSTILE = '<script>alert("x")</script> & {} $title'


def test_plain_text_in_tables_is_escaped():
    html = table(("name",), [TableRow((Cell(HOSTILE),)), TableRow((HOSTILE,))])
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 2


def test_strong_escapes_the_template_and_the_values_and_leaves_braces_in_values_alone():
    assert strong("a < b: {}.", "{x} & y").html == "a &lt; b: <b>{x} &amp; y</b>."


def test_numbers_sort_by_their_value_not_their_text():
    assert 'data-value="12.5"' in table(("t",), [TableRow((number("12.5 ms", 12.5),))])


def test_json_cannot_end_its_script_element():
    assert "</script" not in script_json({"name": "</script><script>"})


def test_numbers_in_text_have_three_digits_and_a_unit():
    assert seconds(0.0539) == "53.9 ms"
    assert seconds(0.0) == "0"
    assert percent(0.0001) == "<0.1 %"
    assert percent(0.731) == "73.1 %"
    assert percent(1.0) == "100 %"
    assert rate_in_words(1_216_000) == ("1.22", "M samples/s")
