"""Which modules are mutated, and which test files answer for each: the mirror of its path, and those named here."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("privacy", "noise", "data", "mechanisms")
NEEDS_PROGRAMS = {"data.engines.dask", "data.engines.spark", "data.engines.device", "privacy.ledger_server"}
"""Modules whose tests start clusters, a database server or a device; mutated only when named."""

_CONTRACTS = "contracts/test_registry.py", "contracts/test_mechanisms.py"
_CHOSEN_DRAWS = {
    "mechanisms/test_adaptive_parts.py": ("adaptive", "adaptive_rules", "separate"),
    "mechanisms/test_coinpress_parts.py": ("coinpress",),
    "mechanisms/test_eigenvectors_parts.py": ("eigenvectors",),
    "mechanisms/test_lattice_parts.py": (
        "gaussian",
        "gaussian_scale",
        "laplace",
        "projection",
        "thresholding",
        "zero",
    ),
    "mechanisms/test_pure_parts.py": ("nuclear", "nuclear_projection", "kapralov_talwar"),
    "mechanisms/test_stratified_parts.py": ("stratified",),
    "mechanisms/test_stratified_nuclear_parts.py": ("stratified_nuclear",),
    "mechanisms/blocks/test_noises.py": (
        "blocks.additive_noise",
        "blocks.matrix_noise",
        "blocks.private_trace",
        "blocks.sensitivity",
        "blocks.shells",
    ),
    "mechanisms/blocks/test_searches.py": (
        "blocks.clip_search",
        "blocks.private_radius",
        "blocks.sparse_vector",
    ),
}
"""Quick tests of mechanisms on draws that the test chooses; they come before the mirror."""
_ALSO = {
    "privacy.guarantee": ("privacy/test_spend.py", "privacy/test_budget.py", "contracts/test_registry.py"),
    "privacy.ledger": ("privacy/test_ledger_trail.py", "privacy/test_ledger_faults.py"),
    "privacy.ledger_file": ("privacy/test_ledger.py", "privacy/test_ledger_faults.py"),
    "privacy.ledger_records": ("privacy/test_ledger.py", "privacy/test_ledger_trail.py"),
    "privacy.ledger_store": (
        "privacy/test_ledger.py",
        "privacy/test_ledger_trail.py",
        "privacy/test_ledger_faults.py",
    ),
    "noise.freud": ("noise/test_nuclear.py", "noise/test_exact_means.py"),
    "noise.log_gas": ("noise/test_nuclear.py", "noise/test_exact_means.py"),
    "data.groups": ("test_groups.py",),
    "data.values": ("data/test_cells.py", "data/test_encode.py"),
    "data.encode": ("data/test_cells.py", "data/test_refusals.py"),
    "data.schema_problems": ("data/test_schema.py", "data/test_refusals.py"),
    "data.schema_toml": ("data/test_schema.py",),
    "data.seal": ("data/test_vault.py", "data/test_checkpoint.py"),
    "data.prefetch": ("data/test_sources.py", "data/test_moments.py"),
    "data.schema": ("data/test_refusals.py",),
    "data.exact": ("data/test_panels.py",),
    "data.moments": ("data/test_panels.py",),
    "data.sources.databases": ("data/test_sql.py",),
    "data.sources.sql": ("data/test_sql.py",),
    "data.sources.cells": ("data/test_cells.py", "data/test_sources.py"),
    "mechanisms.base": ("mechanisms/test_options.py", "mechanisms/test_gaussian.py", "test_groups.py"),
    "mechanisms.adaptive_rules": ("mechanisms/test_adaptive_parts.py", "mechanisms/test_adaptive.py"),
    "mechanisms.gaussian_scale": ("mechanisms/test_gaussian.py", "mechanisms/test_stratified.py"),
    "mechanisms.registry": ("mechanisms/test_options.py",),
    "mechanisms.finished": ("mechanisms/test_options.py", "mechanisms/test_eigenvectors.py"),
    "mechanisms.stratified_rules": ("mechanisms/test_stratified.py",),
    "mechanisms.stratified_nuclear_rules": ("mechanisms/test_stratified_nuclear.py",),
    "mechanisms.blocks.additive_noise": (
        "mechanisms/blocks/test_sensitivity.py",
        "mechanisms/blocks/test_tail_bounds.py",
        "mechanisms/test_separate.py",
    ),
    "mechanisms.blocks.matrix_noise": (
        "mechanisms/blocks/test_sensitivity.py",
        "mechanisms/blocks/test_tail_bounds.py",
        "mechanisms/test_separate.py",
    ),
    "mechanisms.blocks.clip_search": ("mechanisms/blocks/test_shells.py", "mechanisms/test_adaptive.py"),
    "mechanisms.blocks.private_radius": (
        "mechanisms/test_options.py",
        "mechanisms/blocks/test_sparse_vector.py",
        "mechanisms/test_coinpress.py",
    ),
    "mechanisms.blocks.sparse_vector": ("mechanisms/test_options.py",),
    "mechanisms.blocks.private_trace": (
        "mechanisms/blocks/test_sensitivity.py",
        "mechanisms/test_adaptive.py",
    ),
    "mechanisms.blocks.spectrum": ("mechanisms/blocks/test_shells.py", "mechanisms/test_separate.py"),
    "mechanisms.blocks.tail_bounds": ("mechanisms/test_adaptive.py",),
}
_FALLBACK = {
    "data.engines": ("data/engines/test_local.py", "data/engines/test_engines.py"),
    "data.sources": ("data/test_sources.py", "data/test_refusals.py"),
}


def modules(names: list[str] | None = None) -> list[str]:
    """Names below ``dpcov`` of the modules to mutate; a package's name stands for all in it."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / "src/dpcov" / package).rglob("*.py")):
            parts = path.relative_to(ROOT / "src/dpcov").with_suffix("").parts
            found.append(".".join(part for part in parts if part != "__init__"))
    if names is None:
        return [module for module in found if module not in NEEDS_PROGRAMS]
    return [module for module in found if any(f"{module}.".startswith(f"{name}.") for name in names)]


def path_of(module: str) -> Path:
    """A module's path below the folder ``dpcov``."""
    path = Path(*module.split("."))
    return path / "__init__.py" if (ROOT / "src/dpcov" / path).is_dir() else path.with_suffix(".py")


def covering(module: str) -> tuple[str, ...]:
    """Test files, relative to ``tests``, that answer for a module; the nearest first."""
    package, _, name = module.rpartition(".")
    mirror = f"{package.replace('.', '/')}/test_{name}.py"
    files = [file for file, names in _CHOSEN_DRAWS.items() if module.removeprefix("mechanisms.") in names]
    files += [mirror] if (ROOT / "tests" / mirror).exists() else []
    files += _ALSO.get(module, ())
    if not files:
        files += next((_FALLBACK[key] for key in (module, package) if key in _FALLBACK), ())
    if module.startswith("mechanisms"):
        files += _CONTRACTS
    return tuple(files)
