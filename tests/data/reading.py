"""Read a source and encode it block by block; rows of all lengths; moments of them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpcov
from dpcov.data.encode import Encoder, as_matrix, encode_array, whole
from dpcov.data.exact.moments import Moments
from dpcov.data.gather import Gathering
from dpcov.data.questions import MomentsQuestion
from dpcov.data.readers import reader_of
from dpcov.data.sources import open_source

NAMES = ["a", "b", "c"]


def encode_whole(encoder, block):
    """All columns of a block."""
    return whole(*encoder.encode(encoder.read(block)), len(encoder.columns))


def read_encoded(source, schema, block_rows):
    encoder = Encoder(schema)
    for block in source.blocks(block_rows, wanted=encoder.wanted):
        yield encode_whole(encoder, block)


def read_column(data, schema, name):
    """The cells of a column as a schema reads them."""
    reader = reader_of(schema, name)
    blocks = open_source(data).blocks(9, wanted={name: reader.wanted})
    return np.concatenate([reader.of(block) for block in blocks])


def read_unit_ball(source, norm_bound, block_rows):
    for block in source.blocks(block_rows):
        yield encode_array(as_matrix(block), norm_bound)


def rows(n_rows, n_features, seed=0):
    random = np.random.default_rng(seed)
    lengths = 2.0 ** -random.integers(0, 9, size=(n_rows, 1))
    return random.normal(size=(n_rows, n_features)) * lengths


def write(path, X, names=NAMES):
    """A Parquet file of several row groups."""
    columns = {name: X[:, place] for place, name in enumerate(names)}
    pq.write_table(pa.table(columns), path, row_group_size=200)


def gather(blocks, n_features, spec=None):
    """Moments of a stream of encoded blocks."""
    moments = Moments(n_features, spec)
    for block in blocks:
        moments.add(block)
    return moments


def gathered(X, **options):
    """Moments in strata, which every engine must give alike."""
    return dpcov.moments(X, norm_bound=2.0, shells=4, normalized=True, **options)


def local(X):
    return gathered(X, engine="local")


def table_moments(data, schema, spec, **where):
    """Of a table as a schema encodes it; keywords as in `Gathering`."""
    question = MomentsQuestion(spec=spec)
    return Gathering(**where).answer(data, Encoder(schema), question)
