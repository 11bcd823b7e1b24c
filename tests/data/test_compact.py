"""Walking through bytes of the compact protocol: every type, every limit, number by number."""

import pytest

from dpcov.data.sources.compact import BYTE, I32, I64, LIST, STRUCT, Compact, UnreadableError
from dpcov.data.sources.pages import _chunk, _chunks, _Page, _page_header
from tests.data.test_pages import footer, header, listed, numeral, structure, varint

VALUES = {
    1: b"",
    2: b"",
    3: b"\xff",
    4: varint(300),
    5: varint(300),
    6: varint(2**40),
    7: b"12345678",
    8: b"\x03abc",
    9: listed(5, b"\x01", b"\x02"),
    10: b"\x23\x01\x02",
    11: b"\x02\x38" + b"\x01\x01a" + b"\x02\x00",
    12: structure((1, 8, b"\x02ab"), (3, 5, b"\x07")),
}
"""A value of every type, as it stands in a structure."""


@pytest.mark.parametrize("kind", VALUES)
def test_a_value_of_every_type_is_passed_to_its_last_byte(kind):
    reader = Compact(VALUES[kind] + b"\x00\x00")
    reader.skip(kind)
    assert reader.at == len(VALUES[kind])
    if VALUES[kind]:
        with pytest.raises(UnreadableError):
            Compact(VALUES[kind][:-1]).skip(kind)


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("count", [0, 1, 3, 14, 15, 40])
def test_values_of_every_type_are_passed_in_lists(kind, count):
    value = VALUES[kind] or b"\x01"
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + varint(count)
    for outer in (9, 10):
        reader = Compact(head + value * count + b"\x00")
        reader.skip(outer)
        assert reader.at == len(head) + len(value) * count


@pytest.mark.parametrize("key", VALUES)
def test_values_of_every_type_are_passed_in_maps(key):
    first, second = VALUES[key] or b"\x01", VALUES[8]
    for kinds, pair in ((key << 4 | 8, first + second), (8 << 4 | key, second + first)):
        content = b"\x03" + bytes([kinds]) + pair * 3
        reader = Compact(content + b"\x00")
        reader.skip(11)
        assert reader.at == len(content)
    reader = Compact(b"\x00\x11\x11")
    reader.skip(11)
    assert reader.at == 1


@pytest.mark.parametrize("kind", [0, 13, 14, 15])
def test_types_that_there_are_not_are_refused(kind):
    with pytest.raises(UnreadableError):
        Compact(bytes(20)).skip(kind)
    with pytest.raises(UnreadableError):
        Compact(bytes([0x10 | kind]) + bytes(20)).skip(9)


NESTS = {
    "lists": (9, b"\x19", b"\x03"),
    "sets": (10, b"\x1a", b"\x03"),
    "keys": (11, b"\x01\xb3", b"\x00" + b"\x00" * 20),
    "values": (11, b"\x01\x3b\x00", b"\x00"),
    "structures": (12, b"\x1c", b"\x00" * 20),
}


@pytest.mark.parametrize("name", NESTS)
def test_nesting_ends_at_a_depth_of_sixteen(name):
    kind, opening, end = NESTS[name]
    Compact(opening * 16 + end).skip(kind)
    with pytest.raises(UnreadableError):
        Compact(opening * 17 + end).skip(kind)


@pytest.mark.parametrize(
    "number",
    [0, -1, 1, -2, 2, 63, -64, 64, 127, 128, 8191, -8193, 2**31 - 1, -(2**31), 2**62, -(2**63), 2**63 - 1],
)
def test_numbers_of_any_width_are_read(number):
    content = numeral(number)
    reader = Compact(content + b"\x7f")
    assert reader.number() == number
    assert reader.at == len(content)
    assert Compact(content).integer(I64, I64) == number
    for kind, wanted in ((I32, I64), (I64, I32), (BYTE, I32)):
        with pytest.raises(UnreadableError):
            Compact(content).integer(kind, wanted)


@pytest.mark.parametrize(("more", "taken"), [(9, True), (10, False)])
def test_a_number_has_up_to_ten_bytes(more, taken):
    content = b"\x80" * more + b"\x01"
    if taken:
        assert Compact(content).number() == 1 << 62
        return
    with pytest.raises(UnreadableError):
        Compact(content).number()


def test_fields_are_numbered_by_their_distance_or_in_full():
    content = b"\x15\x02" + b"\xf6\x04" + b"\x05" + numeral(9) + b"\x06" + b"\x15\x08\x00" + b"\x15"
    reader, found = Compact(content), []
    for field, kind in reader.fields():
        found.append((field, kind, reader.number()))
    assert found == [(1, 5, 1), (16, 6, 2), (9, 5, 3), (10, 5, 4)]
    assert reader.at == len(content) - 1


@pytest.mark.parametrize(
    ("number", "taken"), [(-1, False), (0, False), (1, True), (2, True), (2**15 - 1, True), (2**15, False)]
)
def test_fields_have_numbers_of_15_bits(number, taken):
    content = b"\x05" + numeral(number) + b"\x02\x00"
    if taken:
        Compact(content).skip(STRUCT)
        return
    with pytest.raises(UnreadableError):
        Compact(content).skip(STRUCT)


def test_a_field_comes_once():
    with pytest.raises(UnreadableError):
        Compact(structure((3, 5, b"\x02"), (3, 5, b"\x02"))).skip(STRUCT)


def test_elements_are_of_the_type_that_is_wanted():
    assert Compact(b"\x25\x02\x04").elements(LIST, I32) == range(2)
    assert Compact(b"\x0c").elements(LIST, STRUCT) == range(0)
    for kind, wanted in ((LIST, STRUCT), (10, I32), (STRUCT, I32), (0, 0)):
        with pytest.raises(UnreadableError):
            Compact(b"\x25\x02\x04").elements(kind, wanted)


@pytest.mark.parametrize(("size", "taken"), [(4, True), (5, False)])
def test_a_list_is_no_longer_than_the_bytes_behind_it(size, taken):
    content = bytes([size << 4 | BYTE]) + b"abcd"
    if taken:
        assert Compact(content).elements(LIST, BYTE) == range(4)
        return
    with pytest.raises(UnreadableError):
        Compact(content).elements(LIST, BYTE)


def test_a_place_starts_at_the_first_byte():
    reader = Compact(b"\x02\x04")
    assert (reader.at, reader.number(), reader.at, reader.number(), reader.at) == (0, 1, 1, 2, 2)


@pytest.mark.parametrize(("kind", "values"), [(0, 7), (3, 7), (1, 0), (2, 0)])
def test_a_page_has_the_values_of_its_own_header(kind, values):
    content = header(40, 30, values=7, kind=kind)
    made = _page_header(Compact(content + b"\x01"))
    assert made == _Page(unfolded=40, folded=30, values=values, header_bytes=len(content))


def test_headers_of_another_kind_of_page_count_nothing():
    for kind, more in (
        (0, structure((8, 12, structure((1, 5, numeral(9)))))),
        (3, structure((5, 12, structure()))),
    ):
        content = b"\x15" + numeral(kind) + b"\x15\x02\x15\x02" + more
        assert _page_header(Compact(content)).values == 0
    without = b"\x15\x00\x15\x02\x15\x02\x2c" + structure((2, 5, numeral(9))) + b"\x00"
    assert _page_header(Compact(without)).values == 0


def test_what_stands_between_the_sizes_and_the_values_is_passed():
    odd = [(7, 12, structure((1, 8, b"\x01a"))), (5, 5, numeral(3)), (4, 6, numeral(1))]
    content = structure((1, 5, numeral(0)), (2, 5, numeral(8)), (3, 5, numeral(4)), *odd)
    assert _page_header(Compact(content)) == _Page(unfolded=8, folded=4, values=0, header_bytes=len(content))


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_page_states_its_kind_and_both_sizes(missing):
    numbers = [(field, 5, numeral(0)) for field in (1, 2, 3) if field != missing]
    with pytest.raises(UnreadableError):
        _page_header(Compact(structure(*numbers)))
    with pytest.raises(UnreadableError):
        _page_header(Compact(structure(*numbers, (missing, 5, numeral(-1)))))
    assert _page_header(Compact(structure(*numbers, (missing, 5, numeral(0))))).values == 0


def test_every_column_chunk_is_found_with_its_place():
    chunk = [
        structure((3, 12, structure((5, 6, numeral(n)), (7, 6, numeral(10 * n)), (9, 6, numeral(4)))))
        for n in (1, 2)
    ]
    groups = [structure((1, 9, listed(12, *chunk)), (3, 6, b"\x02")), structure((1, 9, listed(12, chunk[1])))]
    end = structure((1, 5, b"\x02"), (4, 9, listed(12, *groups)), (6, 8, b"\x01a"))
    first, second = {5: 1, 7: 10, 9: 4}, {5: 2, 7: 20, 9: 4}
    assert list(_chunks(end)) == [(0, first), (1, second), (0, second)]
    assert list(_chunks(footer(start=4, size=9, values=2, dictionary=3))) == [(0, {5: 2, 7: 9, 9: 4, 11: 3})]


def test_metadata_of_a_chunk_is_a_structure():
    reader = Compact(structure((3, 5, numeral(7)), (1, 8, b"\x01a")))
    assert _chunk(reader) == {}
    with pytest.raises(UnreadableError):
        _chunk(Compact(structure((3, 12, structure((5, 5, numeral(7)))))))
