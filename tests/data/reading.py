"""Read a source and encode it block by block."""

from dpcov.data.encode import Encoder, as_matrix, encode_array


def read_encoded(source, schema, block_rows):
    encoder = Encoder(schema)
    for block in source.blocks(block_rows, wanted=encoder.wanted):
        yield encoder.encode(block)


def read_unit_ball(source, norm_bound, block_rows):
    for block in source.blocks(block_rows):
        yield encode_array(as_matrix(block), norm_bound)
