#![no_main]

#[path = "../../prover/groth16/tests/parsers/mod.rs"]
#[allow(dead_code)]
mod parsers;

libfuzzer_sys::fuzz_target!(|data: &[u8]| parsers::wtns(data));
