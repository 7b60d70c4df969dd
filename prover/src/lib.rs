//! The binary prover: run, serve, import, inspect, verify, bench.
