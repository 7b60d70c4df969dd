//! Everything that can be wrong with a witness generator or its input. No message holds a value of the input.

use std::time::Duration;

/// Whose fault it is; decides exit codes and retries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The input JSON is malformed or does not belong to the circuit.
    Input,
    /// The WebAssembly module is malformed, not circom's, or misbehaves.
    Generator,
    /// The input is well-formed but violates an assertion or constraint of the circuit.
    Unsatisfied,
    /// The generation took more memory, stack or time than it may.
    Limit,
    /// The caller cancelled.
    Cancelled,
    /// The machine could not start what is needed (a thread, a memory mapping).
    Internal,
}

/// Why there is no witness.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CircomError {
    /// The module is larger than [`crate::Limits::module_bytes`].
    #[error("the witness generator has {actual} bytes, more than the limit of {limit}")]
    ModuleTooLarge {
        /// Its size.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// A function is larger than [`crate::Limits::function_bytes`].
    #[error("a function of the witness generator has {actual} bytes of code, more than the limit of {limit}")]
    FunctionTooLarge {
        /// Its size.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// No WebAssembly at all.
    #[error("the witness generator is not a WebAssembly module; give the .wasm file that `circom --wasm` writes")]
    NotWasm,
    /// WebAssembly that is malformed or uses features that circom does not.
    #[error("the witness generator is not a valid WebAssembly module: {message}")]
    InvalidModule {
        /// The parser's or compiler's words, with the offset.
        message: String,
    },
    /// A generator of circom 1.
    #[error(
        "the witness generator was made by circom 1, whose interface is not supported; \
         recompile the circuit with circom 2 (`circom circuit.circom --wasm`) and make a new key for it"
    )]
    Circom1,
    /// `getVersion` names a version that is not 2.
    #[error("the witness generator was made by circom {major}; only circom 2 is supported")]
    UnsupportedVersion {
        /// What it says.
        major: i32,
    },
    /// An import that is not circom's.
    #[error(
        "the witness generator imports `{module}.{name}`, which circom's generators do not; \
         give the unmodified .wasm file that `circom --wasm` writes"
    )]
    ForeignImport {
        /// The import's module.
        module: String,
        /// The import's name.
        name: String,
    },
    /// A function that circom's generators export is missing or has another type.
    #[error(
        "the witness generator does not export the function `{name}` as circom 2 does; \
         give the .wasm file that `circom --wasm` writes, not another module"
    )]
    MissingExport {
        /// The export.
        name: &'static str,
    },
    /// A prime that no supported curve has.
    #[error(
        "the witness generator computes in the field of {name}; only BN254 (`--prime bn128`) and BLS12-381 \
         (`--prime bls12381`) are supported"
    )]
    UnsupportedPrime {
        /// circom's name of the prime, or the prime itself in hexadecimal.
        name: String,
    },
    /// `getWitnessSize` is absurd.
    #[error("the witness generator announces a witness of {actual} values; between 1 and {limit} are possible")]
    WitnessSize {
        /// What it says.
        actual: u32,
        /// The limit.
        limit: u32,
    },
    /// A WebAssembly trap that is none of the others.
    #[error("the witness generator failed: {message}; it is damaged or was not made by circom")]
    Trap {
        /// WebAssembly's name of the trap.
        message: String,
    },
    /// A value of the witness is not below the prime.
    #[error("the witness generator computed a value {index} that is not below the field's prime; it is damaged")]
    WitnessValue {
        /// Index in the witness.
        index: u32,
    },
    /// The witness does not start with 1.
    #[error("the witness generator computed a witness that does not begin with 1; it is damaged")]
    WitnessConstant,
    /// An exception with a code that circom does not define, or one that its state does not explain.
    #[error("the witness generator raised exception {code}; it is damaged or was made by an unknown version of circom")]
    Exception {
        /// The code.
        code: i32,
    },
    /// The generation's memory would exceed [`crate::Limits::memory_bytes`].
    #[error("the witness generator needs more than its limit of {limit} bytes of memory")]
    MemoryLimit {
        /// The limit.
        limit: usize,
    },
    /// The table would exceed [`crate::Limits::table_elements`].
    #[error("the witness generator needs a table of more than {limit} entries, its limit")]
    TableLimit {
        /// The limit.
        limit: usize,
    },
    /// The generator's stack would exceed [`crate::Limits::stack_bytes`].
    #[error("the witness generator needs more than its limit of {limit} bytes of stack")]
    StackLimit {
        /// The limit.
        limit: usize,
    },
    /// The generation took longer than [`crate::Limits::time`].
    #[error("the witness generator did not finish within its limit of {limit:?}")]
    TimeLimit {
        /// The limit.
        limit: Duration,
    },
    /// The caller cancelled.
    #[error("the witness generation was cancelled")]
    Cancelled,
    /// The machine could not provide a thread or memory.
    #[error("cannot run the witness generator: {message}")]
    Machine {
        /// The system's words.
        message: String,
    },

    /// The input is larger than [`crate::Limits::input_bytes`].
    #[error("the input has {actual} bytes, more than the limit of {limit}")]
    InputTooLarge {
        /// Its size.
        actual: usize,
        /// The limit.
        limit: usize,
    },
    /// The input is not UTF-8.
    #[error("the input is not JSON: it has a byte at offset {offset} that is not UTF-8")]
    InputEncoding {
        /// Bytes before the first bad one.
        offset: usize,
    },
    /// The input is not JSON.
    #[error("the input is not JSON: {message}")]
    InputSyntax {
        /// The parser's words, with line and column.
        message: String,
    },
    /// The input is JSON but no object.
    #[error(
        "the input must be a JSON object of signal names and values, such as {{\"a\": 1, \"b\": [\"2\", \"0x3\"]}}"
    )]
    InputNotObject,
    /// Nesting deeper than [`crate::Limits::input_depth`].
    #[error("{path}: nested more than {limit} levels deep")]
    InputTooDeep {
        /// Where the limit is passed.
        path: String,
        /// The limit.
        limit: usize,
    },
    /// A value that is no field element.
    #[error("{path}: {problem}")]
    InvalidValue {
        /// Where: `a.b[3]`.
        path: String,
        /// What is wrong with it.
        problem: ValueProblem,
    },
    /// Objects and values in one array.
    #[error("{path}: an array holds either values or the objects of a bus, not both")]
    MixedArray {
        /// The first element that differs from those before it.
        path: String,
    },
    /// A signal is given twice.
    #[error("{signal}: given twice; keep one")]
    DuplicateSignal {
        /// Its name.
        signal: String,
    },
    /// The circuit has no such input.
    #[error("{signal}: the circuit has no input signal of this name; check the spelling, or remove it")]
    UnknownSignal {
        /// Its name.
        signal: String,
    },
    /// A signal's total number of values is wrong.
    #[error("{signal}: {given} values given, the signal has {expected}")]
    SignalSize {
        /// Its name.
        signal: String,
        /// Values that it has.
        expected: u32,
        /// Values in the input.
        given: usize,
    },
    /// More values than the circuit has inputs in all.
    #[error("{path}: the input holds more values than the circuit has, {expected} in all")]
    TooManyValues {
        /// Where the number is passed.
        path: String,
        /// The circuit's input values.
        expected: u32,
    },
    /// Some signals are not given.
    #[error("{}", missing_message(.given, .expected, .signals))]
    MissingSignals {
        /// Values in the input.
        given: usize,
        /// The circuit's input values.
        expected: u32,
        /// The signals that lack values, as far as names are known: `None` without the circuit's symbols.
        signals: Option<Vec<String>>,
    },
    /// The symbol file is malformed.
    #[error(
        "line {line} of the symbol file is not `label,witness,component,name`; give the .sym file that `circom --sym` writes"
    )]
    Symbols {
        /// The line, from 1.
        line: usize,
    },

    /// An assertion or constraint of the circuit failed.
    #[error("{}", unsatisfied_message(.at))]
    UnsatisfiedWitness {
        /// Where, the failing line first, then the lines that instantiate its template; empty if the generator does not
        /// tell (circom before 2.0.7).
        at: Vec<CircuitLine>,
    },
}

impl CircomError {
    /// Whose fault it is.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::ModuleTooLarge { .. }
            | Self::FunctionTooLarge { .. }
            | Self::NotWasm
            | Self::InvalidModule { .. }
            | Self::Circom1
            | Self::UnsupportedVersion { .. }
            | Self::ForeignImport { .. }
            | Self::MissingExport { .. }
            | Self::UnsupportedPrime { .. }
            | Self::WitnessSize { .. }
            | Self::Trap { .. }
            | Self::WitnessValue { .. }
            | Self::WitnessConstant
            | Self::Exception { .. }
            | Self::Symbols { .. } => ErrorKind::Generator,
            Self::MemoryLimit { .. } | Self::TableLimit { .. } | Self::StackLimit { .. } | Self::TimeLimit { .. } => {
                ErrorKind::Limit
            }
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Machine { .. } => ErrorKind::Internal,
            Self::InputTooLarge { .. }
            | Self::InputEncoding { .. }
            | Self::InputSyntax { .. }
            | Self::InputNotObject
            | Self::InputTooDeep { .. }
            | Self::InvalidValue { .. }
            | Self::MixedArray { .. }
            | Self::DuplicateSignal { .. }
            | Self::UnknownSignal { .. }
            | Self::SignalSize { .. }
            | Self::TooManyValues { .. }
            | Self::MissingSignals { .. } => ErrorKind::Input,
            Self::UnsatisfiedWitness { .. } => ErrorKind::Unsatisfied,
        }
    }
}

/// Why a JSON value is no field element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueProblem {
    /// A decimal point.
    #[error("a fraction is no field element; give an integer")]
    Fraction,
    /// An exponent.
    #[error("a number with an exponent is refused; write out its digits")]
    Exponent,
    /// An empty string.
    #[error("an empty string is no number")]
    Empty,
    /// A leading plus sign.
    #[error("a leading `+` is refused; write the number without it")]
    Plus,
    /// A string that is no integer.
    #[error("not an integer; give decimal digits, or hexadecimal ones after 0x")]
    NotInteger,
    /// A minus sign before 0x.
    #[error("a negative hexadecimal number is refused; give a decimal one")]
    NegativeHex,
    /// Not below the prime, in absolute value.
    #[error("not below the prime of the circuit's field, so the proof would be about another number")]
    TooLarge,
    /// `true` or `false`.
    #[error("a boolean is refused; give 0 or 1")]
    Boolean,
    /// `null`.
    #[error("null is no number")]
    Null,
    /// An escape sequence that is no character.
    #[error("the string has an escape sequence that is no character")]
    Escape,
}

/// A line of a circuit's source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CircuitLine {
    /// The template's name as circom numbers its instances: `Num2Bits_3`.
    pub template: String,
    /// Line in the file that defines the template, from 1.
    pub line: u32,
}

impl std::fmt::Display for CircuitLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "template {}, line {}", self.template, self.line)
    }
}

fn missing_message(given: &usize, expected: &u32, signals: &Option<Vec<String>>) -> String {
    let counts = format!("the input gives {given} of the {expected} values that the circuit takes");
    match signals {
        Some(names) if !names.is_empty() => format!("{counts}; missing: {}", names.join(", ")),
        _ => format!("{counts}; some signal is missing (with the circuit's .sym file it would be named here)"),
    }
}

fn unsatisfied_message(at: &[CircuitLine]) -> String {
    let begin = "the input does not satisfy the circuit: an assertion or constraint failed";
    match at {
        [] => begin.to_owned(),
        [line] => format!("{begin} in {line}"),
        [line, users @ ..] => {
            let users: Vec<String> = users.iter().map(ToString::to_string).collect();
            format!("{begin} in {line} (used by {})", users.join("; by "))
        }
    }
}
