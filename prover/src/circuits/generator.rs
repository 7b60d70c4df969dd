//! circom's WebAssembly witness generator, if this prover is built with the feature `wasm`.

#[cfg(feature = "wasm")]
mod enabled;
#[cfg(feature = "wasm")]
pub use enabled::Generator;

#[cfg(not(feature = "wasm"))]
mod disabled;
#[cfg(not(feature = "wasm"))]
pub use disabled::Generator;
