//! Circom inputs to witnesses: `input.json` and circom's WebAssembly witness generators.
//!
//! ```text
//! circuit.wasm --inspect--> Layout --wasmtime--> WitnessGenerator      once per circuit, kept in memory only
//! input.json   --input----> signals --run------> Witness               once per proof, any number at the same time
//! ```
//!
//! - [`generator`]: [`WitnessGenerator`], what users of this crate hold;
//! - [`limits`]: how much of the machine a generator may take;
//! - [`error`]: everything that can be wrong, by kind;
//! - `inspect`: refuses what is not a circom 2 generator before it costs any compilation;
//! - `input`, `json`, `field`: from `input.json` to named signals with values below the field's modulus;
//! - `abi`, `host`: circom's exports and its four imports;
//! - `run`: one generation; `watch`: its thread, its deadline, its cancellation;
//! - `symbols`: the names of a circuit's inputs, from its `.sym` file.
//!
//! # The generator's interface
//! circom 2 exports `init`, `getInputSignalSize`, `writeSharedRWMemory`, `setInputSignal`, `getWitness`,
//! `readSharedRWMemory` and a few more. An input signal is addressed by the 64-bit FNV-1a hash of its name, values pass
//! through a shared buffer of 32-bit words, and the circuit runs when its last input value arrives. The generator holds
//! no names of signals: which ones are missing can only be said with the circuit's `.sym` file
//! ([`WitnessGenerator::with_symbols`]).
//!
//! # What is refused, and why
//! **Generators** (whoever can name a circuit chooses them, so they are not trusted):
//! - circom 1's interface (imports `env.memory` and `runtime.error`, exports `getFrLen`): it needs another reader of
//!   field elements and such circuits have not been made since 2021; recompile with circom 2;
//! - any import but circom's own four functions in `runtime`: a generator needs nothing of the machine;
//! - a prime that is not the scalar field of BN254 or BLS12-381; circom's other primes are refused by name;
//! - modules, functions, memories, tables and witnesses above the [`Limits`]; WebAssembly beyond what circom and
//!   `wasm-opt` emit (SIMD, threads, several memories, 64-bit memories, tail calls), which could make compilation dear;
//! - witness values at or above the prime, and a first value that is not 1: such a witness gives public signals that no
//!   verifier takes.
//!
//! **Inputs** (private: messages name a value's path, `a.b[3]`, and never a value):
//! - fractions and exponents: snarkjs reads numbers as floating point and goes on with the rounded ones; here an
//!   unquoted integer of any length is read from its digits;
//! - booleans and `null`, which snarkjs takes for 1 and 0; empty strings, which it takes for 0; a leading `+`, blanks,
//!   binary, octal: too likely to be a mistake of the program that wrote the file;
//! - values at or above the prime, and negative ones at or below minus the prime. snarkjs reduces them silently, so that
//!   the proof is about other numbers than the input says. `-x` for 0 < x < r is r − x;
//! - a signal given twice (JSON parsers keep the last one silently), unknown signals, missing ones, and a total number of
//!   values that is not the signal's size. Shapes are not compared further: like snarkjs, `[1,2,3,4]` is taken for
//!   `[[1,2],[3,4]]`;
//! - arrays that mix objects and values; nesting deeper and input longer than the limits.
//!
//! A bus (circom 2.2) may be a nested object (`{"p": {"x": 1, "y": [2, 3]}}`), the flat array of its values in the order
//! of their declaration (`{"p": [1, 2, 3]}`), or its fields by qualified name (`{"p.x": 1, "p.y": [2, 3]}`); an array of
//! buses may be an array of such objects.
//!
//! # What a hostile generator can still do
//! It can compute a wrong witness: every proof is verified before it leaves the engine. It can take all of its limits of
//! time, memory and stack, and its compilation takes time in proportion to its size (no call can cut a compilation
//! short); [`Limits::module_bytes`] and [`Limits::function_bytes`] bound that.

mod abi;
pub mod error;
mod field;
pub mod generator;
mod host;
mod input;
mod inspect;
mod json;
pub mod limits;
mod run;
mod symbols;
mod watch;

pub use error::{CircomError, CircuitLine, ErrorKind, ValueProblem};
pub use generator::WitnessGenerator;
pub use limits::Limits;
