"""The cases in which the contract suite runs the providers that Holdfast ships, by provider."""

OURS = {
    "holographic": "tests.providers.contract_suite.holographic_case:HolographicCase",
    "hindsight": "tests.providers.contract_suite.hindsight_case:HindsightCase",
    "openviking": "tests.providers.contract_suite.openviking_case:OpenVikingCase",
    "local": "tests.providers.contract_suite.local_case:LocalCase",
    "hermes bridge": "tests.providers.contract_suite.hermes_case:HermesCase",
    "mem0 local": "tests.providers.contract_suite.mem0_case:Mem0LocalCase",
    "mem0 platform": "tests.providers.contract_suite.mem0_case:Mem0PlatformCase",
    "honcho": "tests.providers.contract_suite.honcho_case:HonchoCase",
}
