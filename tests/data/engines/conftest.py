"""One Spark for all tests of a process."""

import os
import shutil
import sys

import pytest


def pytest_collection_modifyitems(items):
    """Tests of Spark come first, one after another: of several processes one starts it."""
    items.sort(key=lambda item: "session" not in item.fixturenames and "spark" not in item.name)


@pytest.fixture(scope="session")
def session():
    """A Spark of two threads that gives a task two attempts."""
    sql = pytest.importorskip(
        "pyspark.sql", reason="the spark engine needs pyspark: pip install 'dpcov[spark]'"
    )
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or newer")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = (
        sql.SparkSession.builder.master("local[2,2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.shuffle.partitions", "3")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "97")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()
