//! Modules that are not circom's, or that misbehave: each ends in its own error, within its limits.

use std::time::{Duration, Instant};

use crate::features::{NEVER, circuit};
use proofmill_circom::{CircomError, CircuitLine, ErrorKind, Limits, WitnessGenerator};

/// A small generator in text form: one input `a`, a witness of 1 and 7. Each part can be replaced or left out.
struct Module {
    parts: Vec<(&'static str, String)>,
}

/// r of BN254 as bytes of a data segment.
const PRIME: &str = "\\01\\00\\00\\f0\\93\\f5\\e1\\43\\91\\70\\b9\\79\\48\\e8\\33\\28\\5d\\58\\81\\81\\b6\\45\\50\\b8\
                     \\29\\a0\\31\\e1\\72\\4e\\64\\30";

impl Module {
    fn new() -> Self {
        let parts = [
            (
                "imports",
                r#"(import "runtime" "exceptionHandler" (func $exception (param i32)))
                   (import "runtime" "printErrorMessage" (func $print))
                   (import "runtime" "writeBufferMessage" (func $write))
                   (import "runtime" "showSharedRWMemory" (func $show))"#,
            ),
            ("memory", r#"(memory (export "memory") 1)"#),
            ("data", ""),
            ("table", ""),
            ("start", ""),
            ("getVersion", "(result i32) i32.const 2"),
            ("getFieldNumLen32", "(result i32) i32.const 8"),
            ("getRawPrime", "(memory.copy (i32.const 0) (i32.const 64) (i32.const 32))"),
            ("getWitnessSize", "(result i32) i32.const 2"),
            ("getInputSize", "(result i32) i32.const 1"),
            ("getInputSignalSize", "(param i32 i32) (result i32) i32.const 1"),
            ("init", "(param i32)"),
            ("writeSharedRWMemory", "(param i32 i32) (i32.store (i32.mul (local.get 0) (i32.const 4)) (local.get 1))"),
            ("setInputSignal", "(param i32 i32 i32)"),
            (
                "getWitness",
                "(param i32) (memory.fill (i32.const 0) (i32.const 0) (i32.const 32))
                 (i32.store (i32.const 0) (select (i32.const 7) (i32.const 1) (local.get 0)))",
            ),
            ("readSharedRWMemory", "(param i32) (result i32) (i32.load (i32.mul (local.get 0) (i32.const 4)))"),
            ("getMessageChar", "(result i32) i32.const 0"),
        ];
        let mut module = Self { parts: parts.map(|(name, text)| (name, text.to_owned())).to_vec() };
        module.set("data", &format!("(data (i32.const 64) \"{PRIME}\")"));
        module
    }

    fn set(&mut self, name: &str, text: &str) {
        self.parts.iter_mut().find(|part| part.0 == name).unwrap().1 = text.to_owned();
    }

    fn with(mut self, name: &str, text: &str) -> Self {
        self.set(name, text);
        self
    }

    fn without(mut self, name: &str) -> Self {
        self.parts.retain(|part| part.0 != name);
        self
    }

    fn wasm(&self) -> Vec<u8> {
        let mut text = "(module ".to_owned();
        for (name, part) in &self.parts {
            let raw = ["imports", "memory", "data", "table", "start"].contains(name);
            text += &if raw { part.clone() } else { format!("(func (export \"{name}\") {part})\n") };
        }
        wat::parse_str(text + ")").expect("the test's own module")
    }

    fn compile(&self) -> Result<WitnessGenerator, CircomError> {
        WitnessGenerator::compile(&self.wasm(), limits())
    }

    /// What compiling, or else generating, comes to.
    fn error(&self) -> CircomError {
        let begin = Instant::now();
        let result = self.compile().and_then(|generator| generator.generate(br#"{"a":1}"#, NEVER));
        assert!(begin.elapsed() < Duration::from_secs(20), "took {:?}", begin.elapsed());
        result.err().expect("the module misbehaves")
    }
}

fn limits() -> Limits {
    Limits { time: Duration::from_millis(300), memory_bytes: 16 << 20, stack_bytes: 1 << 20, ..Limits::default() }
}

const FOREVER: &str = "(loop $l (br $l))";

#[test]
fn the_small_generator_works() {
    let generator = Module::new().compile().unwrap();
    let witness = generator.generate(br#"{"a":1}"#, NEVER).unwrap();
    assert_eq!(witness.values, [[1, 0, 0, 0], [7, 0, 0, 0]]);
}

#[test]
fn endless_loops_end_at_the_limit_of_time() {
    let late = CircomError::TimeLimit { limit: Duration::from_millis(300) };
    for (name, text) in [
        ("getVersion", format!("(result i32) {FOREVER} i32.const 2")),
        ("getRawPrime", FOREVER.to_owned()),
        ("getInputSignalSize", format!("(param i32 i32) (result i32) {FOREVER} i32.const 1")),
        ("init", format!("(param i32) {FOREVER}")),
        ("setInputSignal", format!("(param i32 i32 i32) {FOREVER}")),
        ("setInputSignal", "(param i32 i32 i32) (loop $l (drop (memory.grow (i32.const 1))) (br $l))".to_owned()),
        ("setInputSignal", "(param i32 i32 i32) (loop $l (call $print) (br $l))".to_owned()),
        (
            "setInputSignal",
            "(param i32 i32 i32) (loop $l (memory.fill (i32.const 4096) (i32.const 0) (i32.const 60000)) (br $l))"
                .to_owned(),
        ),
        ("getWitness", format!("(param i32) {FOREVER}")),
        ("readSharedRWMemory", format!("(param i32) (result i32) {FOREVER} i32.const 0")),
    ] {
        let error = Module::new().with(name, &text).error();
        assert_eq!(error, late, "{name} {text}");
        assert_eq!(error.kind(), ErrorKind::Limit);
    }
    assert_eq!(Module::new().with("start", &format!("(func $s {FOREVER}) (start $s)")).error(), late);
    // Endless messages are cut, and then the loop goes on.
    let endless = Module::new()
        .with("getMessageChar", "(result i32) i32.const 65")
        .with("setInputSignal", "(param i32 i32 i32) (loop $l (call $print) (call $write) (call $show) (br $l))");
    assert_eq!(endless.error(), late);
}

#[test]
fn cancellation_ends_a_loop() {
    let limits = Limits { time: Duration::from_secs(3600), ..limits() };
    let wasm = Module::new().with("setInputSignal", &format!("(param i32 i32 i32) {FOREVER}")).wasm();
    let generator = WitnessGenerator::compile(&wasm, limits).unwrap();
    let begin = Instant::now();
    let cancel = || begin.elapsed() > Duration::from_millis(50);
    assert_eq!(generator.generate(br#"{"a":1}"#, &cancel).err(), Some(CircomError::Cancelled));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn one_stopped_generation_leaves_the_others_alone() {
    // Loops as often as the input says: the sum of the first two words.
    let wasm = Module::new()
        .with(
            "setInputSignal",
            "(param i32 i32 i32) (local $n i32) (local.set $n (i32.load (i32.const 0)))
             (loop $l (local.set $n (i32.sub (local.get $n) (i32.const 1))) (br_if $l (local.get $n)))",
        )
        .wasm();
    let generator = WitnessGenerator::compile(&wasm, Limits { time: Duration::from_secs(600), ..limits() }).unwrap();
    std::thread::scope(|scope| {
        let long = scope.spawn(|| generator.generate(br#"{"a":300000000}"#, NEVER).map(|witness| witness.values.len()));
        for _ in 0..5 {
            let begin = Instant::now();
            let cancel = move || begin.elapsed() > Duration::from_millis(20);
            // 2^32 rounds, cancelled by then; each cancellation advances the epoch of all.
            assert_eq!(generator.generate(br#"{"a":0}"#, &cancel).err(), Some(CircomError::Cancelled));
        }
        assert_eq!(long.join().unwrap(), Ok(2));
    });
}

#[test]
fn memory_stack_and_table_are_limited() {
    let memory = CircomError::MemoryLimit { limit: 16 << 20 };
    let grow_until_it_fails = "(param i32 i32 i32)
        (loop $l (br_if $l (i32.ne (memory.grow (i32.const 16)) (i32.const -1)))) unreachable";
    assert_eq!(Module::new().with("setInputSignal", grow_until_it_fails).error(), memory);
    // As circom does it: exception 5.
    let exception = grow_until_it_fails.replace("unreachable", "(call $exception (i32.const 5))");
    assert_eq!(Module::new().with("setInputSignal", &exception).error(), memory);
    assert_eq!(Module::new().with("memory", r#"(memory (export "memory") 257)"#).error(), memory);
    assert_eq!(Module::new().with("memory", r#"(memory (export "memory") 65536)"#).error(), memory);
    let all = Module::new().with("memory", r#"(memory (export "memory") 65536 65536)"#).wasm();
    assert_eq!(
        WitnessGenerator::compile(&all, Limits::default()).err(),
        Some(CircomError::MemoryLimit { limit: 2 << 30 })
    );
    // Up to the limit is fine.
    assert!(Module::new().with("memory", r#"(memory (export "memory") 256)"#).compile().is_ok());

    assert_eq!(
        Module::new()
            .with("table", "(func $f (call $f) (call $f))")
            .with("setInputSignal", "(param i32 i32 i32) (call $f)")
            .error(),
        CircomError::StackLimit { limit: 1 << 20 }
    );
    assert_eq!(
        Module::new().with("table", "(table 2000000 funcref)").error(),
        CircomError::TableLimit { limit: 1 << 20 }
    );
}

#[test]
fn traps_are_named() {
    for (text, name) in [
        ("unreachable", "unreachable"),
        ("(drop (i32.load (i32.const 65536)))", "out of bounds memory access"),
        ("(drop (i32.div_u (i32.const 1) (i32.const 0)))", "integer divide by zero"),
        ("(call_indirect (i32.const 0))", "uninitialized element"),
        ("(call_indirect (i32.const 9))", "out of bounds"),
    ] {
        let error = Module::new()
            .with("table", "(table 1 funcref)")
            .with("setInputSignal", &format!("(param i32 i32 i32) {text}"))
            .error();
        let CircomError::Trap { message } = &error else { panic!("{text}: {error}") };
        assert!(message.contains(name), "{text}: {message}");
        assert_eq!(error.kind(), ErrorKind::Generator);
    }
    let start = Module::new().with("start", "(func $s unreachable) (start $s)").error();
    assert!(matches!(start, CircomError::Trap { .. }), "{start}");
}

#[test]
fn only_circoms_own_imports_exist() {
    let imports = Module::new().parts[0].1.clone();
    let with = |more: &str| Module::new().with("imports", &format!("{imports} {more}")).error();
    for more in [
        r#"(import "env" "memory" (memory 1))"#,
        r#"(import "runtime" "error" (func (param i32 i32 i32 i32 i32 i32)))"#,
        r#"(import "runtime" "logSetSignal" (func (param i32 i32)))"#,
    ] {
        assert_eq!(with(more), CircomError::Circom1, "{more}");
    }
    for (more, module, name) in [
        (
            r#"(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32)))"#,
            "wasi_snapshot_preview1",
            "fd_write",
        ),
        (r#"(import "runtime" "exceptionhandler" (func (param i32)))"#, "runtime", "exceptionhandler"),
        (r#"(import "env" "exceptionHandler" (func (param i32)))"#, "env", "exceptionHandler"),
        (r#"(import "runtime" "showSharedRWMemory" (global i32))"#, "runtime", "showSharedRWMemory"),
        (r#"(import "env" "table" (table 1 funcref))"#, "env", "table"),
        (r#"(import "" "\n\u{1b}[31m" (func))"#, "", "\\n\\u{1b}[31m"),
    ] {
        assert_eq!(with(more), CircomError::ForeignImport { module: module.to_owned(), name: name.to_owned() });
    }
    for wrong in ["(param i64)", "(param i32) (result i32)", ""] {
        let imports = imports.replace("$exception (param i32)", &format!("$exception {wrong}"));
        let error = Module::new().with("imports", &imports).error();
        assert!(matches!(error, CircomError::InvalidModule { .. }), "{error}");
    }
    // The imports of circom before 2.0.7.
    let two = r#"(import "runtime" "exceptionHandler" (func (param i32)))
                 (import "runtime" "showSharedRWMemory" (func))"#;
    assert!(Module::new().with("imports", two).compile().is_ok());
}

#[test]
fn each_export_is_needed_with_its_type() {
    for name in [
        "getVersion",
        "getFieldNumLen32",
        "getRawPrime",
        "getWitnessSize",
        "getInputSize",
        "getInputSignalSize",
        "init",
        "writeSharedRWMemory",
        "setInputSignal",
        "getWitness",
        "readSharedRWMemory",
    ] {
        let missing = CircomError::MissingExport { name };
        assert_eq!(Module::new().without(name).error(), missing);
        assert_eq!(Module::new().with(name, "(param i64) (result i64) i64.const 0").error(), missing);
        let memory = format!(r#"(memory (export "memory") (export "{name}") 1)"#);
        assert_eq!(Module::new().without(name).with("memory", &memory).error(), missing);
    }
    // Names that make it circom 1, whatever else is there.
    for name in ["getFrLen", "getPRawPrime", "getNVars"] {
        let table = format!("(func (export \"{name}\") (result i32) i32.const 0)");
        assert_eq!(Module::new().with("table", &table).error(), CircomError::Circom1);
    }
    // Only needed for messages.
    assert!(Module::new().without("getMessageChar").compile().is_ok());
    let print = Module::new().without("getMessageChar").with("setInputSignal", "(param i32 i32 i32) (call $print)");
    assert!(print.compile().unwrap().generate(br#"{"a":1}"#, NEVER).is_ok());
}

#[test]
fn lies_about_version_prime_and_sizes() {
    for major in [1, 3, 0, -1, i32::MAX] {
        let error = Module::new().with("getVersion", &format!("(result i32) i32.const {major}")).error();
        assert_eq!(error, CircomError::UnsupportedVersion { major });
    }
    let prime = |data: &str, words: i32| {
        Module::new()
            .with("data", &format!("(data (i32.const 64) \"{data}\")"))
            .with("getFieldNumLen32", &format!("(result i32) i32.const {words}"))
            .error()
    };
    let unsupported = |name: &str| CircomError::UnsupportedPrime { name: name.to_owned() };
    assert_eq!(prime("\\01\\00\\00\\00\\ff\\ff\\ff\\ff", 2), unsupported("goldilocks"));
    assert_eq!(prime("\\07", 8), unsupported("the unknown prime 0x7"));
    assert_eq!(prime(PRIME, 0), unsupported("the unknown prime 0x0"));
    assert_eq!(prime(PRIME, -8), unsupported("the unknown prime 0x0"));
    assert!(matches!(prime(PRIME, 7), CircomError::UnsupportedPrime { .. }));
    assert!(matches!(prime(PRIME, i32::MAX), CircomError::UnsupportedPrime { .. }));

    for size in [0, 1 << 28, u32::MAX] {
        let error = Module::new().with("getWitnessSize", &format!("(result i32) i32.const {size}")).error();
        assert_eq!(error, CircomError::WitnessSize { actual: size, limit: 1 << 27 });
    }
    for size in [2u32, 1 << 31, u32::MAX] {
        let error = Module::new().with("getInputSize", &format!("(result i32) i32.const {size}")).error();
        assert_eq!(error, CircomError::MissingSignals { given: 1, expected: size, signals: None });
    }
    let signal_size = |size: i32| {
        Module::new().with("getInputSignalSize", &format!("(param i32 i32) (result i32) i32.const {size}")).error()
    };
    for size in [2, i32::MAX] {
        let expected = size.cast_unsigned();
        assert_eq!(signal_size(size), CircomError::SignalSize { signal: "a".to_owned(), expected, given: 1 });
    }
    for size in [0, -1, i32::MIN] {
        assert_eq!(signal_size(size), CircomError::UnknownSignal { signal: "a".to_owned() });
    }
}

#[test]
fn wrong_witnesses_are_refused() {
    let witness = |text: &str| Module::new().with("getWitness", &format!("(param i32) {text}")).error();
    let one = "(i32.store (i32.const 0) (i32.const 1))";
    assert_eq!(witness(&one.replace('1', "2")), CircomError::WitnessConstant);
    let zero = "(memory.fill (i32.const 0) (i32.const 0) (i32.const 32))";
    assert_eq!(witness(zero), CircomError::WitnessConstant);
    let prime = "(memory.copy (i32.const 0) (i32.const 64) (i32.const 32))";
    assert_eq!(
        witness(&format!("(if (local.get 0) (then {prime}) (else {zero} {one}))")),
        CircomError::WitnessValue { index: 1 }
    );
    let ones = "(memory.fill (i32.const 0) (i32.const 255) (i32.const 32))";
    assert_eq!(witness(ones), CircomError::WitnessValue { index: 0 });
}

#[test]
fn exceptions_by_code() {
    let raise = |code: i32| {
        Module::new()
            .with("setInputSignal", &format!("(param i32 i32 i32) (call $exception (i32.const {code}))"))
            .error()
    };
    let signal = "a".to_owned();
    assert_eq!(raise(1), CircomError::UnknownSignal { signal: signal.clone() });
    assert_eq!(raise(2), CircomError::DuplicateSignal { signal: signal.clone() });
    assert_eq!(raise(3), CircomError::DuplicateSignal { signal });
    assert_eq!(raise(4), CircomError::UnsatisfiedWitness { at: vec![] });
    assert_eq!(raise(5), CircomError::MemoryLimit { limit: 16 << 20 });
    for code in [0, 6, 7, -1, i32::MIN] {
        assert_eq!(raise(code), CircomError::Exception { code });
    }
    let prime = Module::new().with("getRawPrime", "(call $exception (i32.const 9))").error();
    assert_eq!(prime, CircomError::Exception { code: 9 });
}

/// A generator could print the input in its messages; only circom's own sentences get through.
#[test]
fn messages_cannot_carry_values() {
    let speak = |message: &str| {
        Module::new()
            .with("data", &format!("(data (i32.const 64) \"{PRIME}\") (data (i32.const 256) \"{message}\\00\")"))
            .with("table", "(global $at (mut i32) (i32.const 256))")
            .with(
                "getMessageChar",
                "(result i32) (i32.load8_u (global.get $at)) (global.set $at (i32.add (global.get $at) (i32.const 1)))",
            )
            .with("setInputSignal", "(param i32 i32 i32) (call $print) (call $exception (i32.const 4))")
            .error()
    };
    let at = vec![CircuitLine { template: "T_0".to_owned(), line: 7 }];
    assert_eq!(speak("Error in template T_0 line: 7"), CircomError::UnsatisfiedWitness { at });
    for message in ["the key is 42", "Error in template 4 2 line: 7", "Error in template T_0 line: 7, key 42"] {
        assert_eq!(speak(message), CircomError::UnsatisfiedWitness { at: vec![] }, "{message}");
    }
}

#[test]
fn a_flood_of_log_lines_is_not_kept() {
    let generator = Module::new()
        .with("getMessageChar", "(result i32) i32.const 65")
        .with("setInputSignal", "(param i32 i32 i32) (loop $l (call $show) (call $write) (br $l))")
        .compile()
        .unwrap();
    let mut lines = 0;
    let result = generator.generate_logged(br#"{"a":1}"#, NEVER, &mut |line| {
        assert!(line.len() <= 64 << 10);
        lines += 1;
    });
    assert!(matches!(result, Err(CircomError::TimeLimit { .. })));
    // The line never ends in this one, so nothing was handed on; it does in the next.
    assert_eq!(lines, 0);
    let generator = Module::new()
        .with(
            "imports",
            r#"(import "runtime" "exceptionHandler" (func $exception (param i32)))
                            (import "runtime" "showSharedRWMemory" (func $show))"#,
        )
        .with("setInputSignal", "(param i32 i32 i32) (loop $l (call $show) (br $l))")
        .compile()
        .unwrap();
    let result = generator.generate_logged(br#"{"a":12}"#, NEVER, &mut |line| {
        assert_eq!(line, "12");
        lines += 1;
    });
    assert!(matches!(result, Err(CircomError::TimeLimit { .. })));
    assert!(lines > 100, "{lines}");
}

#[test]
fn what_is_no_module() {
    let compile = |bytes: &[u8], limits| WitnessGenerator::compile(bytes, limits).err();
    for bytes in [&b""[..], b"\0as", b"(module)", b"<html>404</html>", b"{\"a\":1}", b"\x1f\x8b\x08\0"] {
        assert_eq!(compile(bytes, limits()), Some(CircomError::NotWasm));
    }
    let component = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    assert!(matches!(compile(&component, limits()), Some(CircomError::InvalidModule { .. })));
    let version = [0, b'a', b's', b'm', 2, 0, 0, 0];
    assert!(matches!(compile(&version, limits()), Some(CircomError::InvalidModule { .. })));
    assert_eq!(compile(b"\0asm\x01\0\0\0", limits()), Some(CircomError::MissingExport { name: "getVersion" }));
    let whole = circuit("features.wasm");
    for tenth in 1..10 {
        let error = compile(&whole[..whole.len() * tenth / 10], limits()).expect("cut short");
        assert_eq!(error.kind(), ErrorKind::Generator, "{error}");
    }
    assert_eq!(
        compile(&whole, Limits { module_bytes: whole.len() - 1, ..limits() }),
        Some(CircomError::ModuleTooLarge { actual: whole.len(), limit: whole.len() - 1 })
    );
    assert!(matches!(
        compile(&whole, Limits { function_bytes: 1000, ..limits() }),
        Some(CircomError::FunctionTooLarge { actual: 1001.., limit: 1000 })
    ));
    assert!(matches!(
        compile(&whole, Limits { witness_values: 36, ..limits() }),
        Some(CircomError::WitnessSize { actual: 37, limit: 36 })
    ));
    // Features that circom does not use.
    for (name, text) in [
        ("memory", r#"(memory (export "memory") i64 1)"#),
        ("memory", r#"(memory (export "memory") 1) (memory 1)"#),
        ("init", "(param i32) (drop (i8x16.popcnt (v128.const i64x2 1 2)))"),
        ("table", "(func $f (return_call $f))"),
        ("memory", r#"(memory (export "memory") 1 1 shared)"#),
    ] {
        let error = Module::new().with(name, text).error();
        assert!(matches!(error, CircomError::InvalidModule { .. }), "{text}: {error}");
    }
}
