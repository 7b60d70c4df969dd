//! How much of the machine one witness generator may take.

use std::time::Duration;

/// Bounds on a witness generator and its input. The defaults take every circuit that fits circom's own 32-bit world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the WebAssembly module. Compilation takes time and memory in proportion to it.
    pub module_bytes: usize,
    /// Bytes of one function's body. Register allocation within a function is not linear, so this bounds what a module
    /// made for that purpose can cost; circom's own functions are a few hundred kilobytes at most.
    pub function_bytes: usize,
    /// Bytes of linear memory that one generation may hold.
    pub memory_bytes: usize,
    /// Entries of the module's table of functions.
    pub table_elements: usize,
    /// Bytes of stack for the generator's own frames.
    pub stack_bytes: usize,
    /// Wall time of one generation, from its start to the last value of the witness.
    pub time: Duration,
    /// Bytes of the input JSON.
    pub input_bytes: usize,
    /// Levels of nested arrays and objects in the input JSON.
    pub input_depth: usize,
    /// Values of the witness.
    pub witness_values: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            module_bytes: 256 << 20,
            function_bytes: 4 << 20,
            memory_bytes: 2 << 30,
            table_elements: 1 << 20,
            stack_bytes: 8 << 20,
            time: Duration::from_secs(300),
            input_bytes: 64 << 20,
            input_depth: 32,
            witness_values: 1 << 27,
        }
    }
}
