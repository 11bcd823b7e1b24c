"""What a custodian files about a release: an entry for a deployment registry, and an evaluator's checklist.

Promise: reads a release only; what the release does not know is asked for or left open, never invented.
"""

from dpcov.record.checklist import checklist
from dpcov.record.registry import Deployment, registry_entry, registry_schema

__all__ = ["Deployment", "checklist", "registry_entry", "registry_schema"]
