//! Real circuits from npm packages, against snarkjs byte for byte. `PROOFMILL_TEST_NPM` names the folder `node_modules` with
//! the packages; `tests/all` installs them and sets that.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "support/fixtures.rs"]
mod fixtures;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use fixtures::{fixture, wtns_values};
use proofmill_circom::{Limits, WitnessGenerator};

/// Fixture of the input, the generator, and the witness's size.
const CIRCUITS: [(&str, &str, u32); 6] = [
    ("sem20.json", "@zk-kit/semaphore-artifacts/semaphore-20.wasm", 6454),
    ("rln.json", "@waku/rln/dist/resources/rln.wasm", 5579),
    ("signup.json", "@unirep/circuits/zksnarkBuild/signup.wasm", 936),
    ("ust.json", "@unirep/circuits/zksnarkBuild/userStateTransition.wasm", 33_837),
    ("authV2.json", "@rarimo/zkp-gen-iden3/assets/authV2/circuit.wasm", 47_470),
    (
        "credentialAtomicQuerySigV2OnChain.json",
        "@rarimo/zkp-gen-iden3/assets/credentialAtomicQuerySigV2OnChain/circuit.wasm",
        108_310,
    ),
];

#[test]
fn real_circuits_equal_snarkjs() {
    let Some(packages) = std::env::var_os("PROOFMILL_TEST_NPM").map(PathBuf::from) else {
        println!("SKIPPED real_circuits_equal_snarkjs: PROOFMILL_TEST_NPM is not set");
        return;
    };
    let scratch = tempfile::tempdir().unwrap();
    for (input, wasm, size) in CIRCUITS {
        let (input, wasm) = (fixture(input), packages.join(wasm));
        let expected = scratch.path().join("witness.wtns");
        let snarkjs = cpu(|| snarkjs(&packages, &wasm, &input, &expected));
        let wasm = std::fs::read(&wasm).unwrap();
        let input = std::fs::read(&input).unwrap();
        let mut generator = None;
        let compile = cpu(|| generator = Some(WitnessGenerator::compile(&wasm, Limits::default()).unwrap()));
        let generator = generator.unwrap();
        let mut witness = None;
        let begin = Instant::now();
        let generate = cpu(|| witness = Some(generator.generate(&input, &|| false).unwrap()));
        let wall = begin.elapsed();
        let witness = witness.unwrap();
        assert_eq!(generator.witness_size(), size);
        assert_eq!(witness.values, wtns_values(&std::fs::read(&expected).unwrap()));
        println!(
            "{size:>7} values: compile {compile:.2} CPU-s (holds {:.1} MB), generate {generate:.3} CPU-s ({:.3} s wall, \
             {:.1} MB), snarkjs {snarkjs:.2} CPU-s",
            generator.memory_bytes() as f64 / 1e6,
            wall.as_secs_f64(),
            generator.working_memory() as f64 / 1e6,
        );
    }
}

fn snarkjs(packages: &Path, wasm: &Path, input: &Path, witness: &Path) {
    let program = packages.join("snarkjs/build/cli.cjs");
    let mut command = Command::new("node");
    command.arg(program).args(["wtns", "calculate"]).args([wasm, input, witness]);
    let output = command.output().expect("node is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// User and system seconds that this process and its children spend on `work`; other tests' too, so run this one alone.
fn cpu(work: impl FnOnce()) -> f64 {
    let ticks = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let fields: Vec<u64> =
            stat.rsplit(')').next().unwrap().split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
        fields[11..15].iter().sum::<u64>() as f64 / 100.0
    };
    let begin = ticks();
    work();
    ticks() - begin
}
