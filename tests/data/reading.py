"""Read a source and encode it block by block."""

from dpcov.data.encode import Encoder, as_matrix, encode_array


def read_encoded(source, schema, block_rows, progress=None):
    encoder = Encoder(schema)
    for block in source.blocks(block_rows, wanted=encoder.wanted, progress=progress):
        yield encoder.encode(block)


def read_unit_ball(source, norm_bound, block_rows, progress=None):
    for block in source.blocks(block_rows, progress=progress):
        yield encode_array(as_matrix(block), norm_bound)
