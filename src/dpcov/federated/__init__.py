"""Several sites, one release: secure aggregation of exact moments with noise that every site draws a share of.

A sketch, proven and tested in simulation (docs/federated.md): :class:`Study` is what the sites agree on in public,
:class:`Site` holds rows, and :func:`combine` sees only sums that already carry their noise.
"""

from dpcov.federated.coordinator import combine
from dpcov.federated.site import Contribution, Site
from dpcov.federated.study import Study

__all__ = ["Contribution", "Site", "Study", "combine"]
