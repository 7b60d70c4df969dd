//! Circom inputs to witnesses: input.json and circom's WebAssembly witness generators.
