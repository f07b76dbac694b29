"""Every provider that Holdfast ships, by its name, with the case that the contract suite runs it in."""

OURS = {
    "holographic": "tests.memory.kit.holographic_case:HolographicCase",
    "local": "tests.memory.kit.local_case:LocalCase",
    "hermes bridge": "tests.memory.kit.hermes_case:HermesCase",
}
