"""Fixtures that several folders of tests share."""

from tests.services.postgres import durable_postgres, module_database, postgres_database, postgres_url

__all__ = ["durable_postgres", "module_database", "postgres_database", "postgres_url"]
