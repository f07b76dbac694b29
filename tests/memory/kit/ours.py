"""Every provider that Holdfast ships, by its name, with the case that the contract suite runs it in."""

OURS = {
    "holographic": "tests.memory.kit.holographic_case:HolographicCase",
    "hindsight": "tests.memory.kit.hindsight_case:HindsightCase",
    "openviking": "tests.memory.kit.openviking_case:OpenVikingCase",
    "local": "tests.memory.kit.local_case:LocalCase",
    "hermes bridge": "tests.memory.kit.hermes_case:HermesCase",
    "mem0 local": "tests.memory.kit.mem0_case:Mem0LocalCase",
    "mem0 platform": "tests.memory.kit.mem0_case:Mem0PlatformCase",
    "honcho": "tests.memory.kit.honcho_case:HonchoCase",
}
