"""Fixtures that several folders of tests share."""

from tests.services.postgres import durable_postgres, postgres_database, postgres_url

__all__ = ["durable_postgres", "postgres_database", "postgres_url"]
