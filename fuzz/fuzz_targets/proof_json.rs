#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| proofmill_fuzz::parsers::proof_json(data));
