//! snarkjs as oracle, the only one for circom's keys on BLS12-381. It runs where the environment variable
//! `PROOFMILL_TEST_SNARKJS` names its command (cli.cjs); `tests/all` sets that.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod proving;

use std::path::{Path, PathBuf};
use std::process::Command;

use proofmill_groth16::curve::Curve;
use proofmill_groth16::device::Blinding;
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::format::public;
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verify::verify_partition;
use proving::{Case, chain, fixture, squares};

/// snarkjs's command line, or `None` with the reason printed for the test `name`.
fn snarkjs(name: &str) -> Option<PathBuf> {
    let found = std::env::var_os("PROOFMILL_TEST_SNARKJS").map(PathBuf::from);
    if found.is_none() {
        println!("SKIPPED {name}: PROOFMILL_TEST_SNARKJS is not set");
    }
    found
}

/// Runs it; its output if it exits with 0.
fn run(snarkjs: &Path, arguments: &[&str], folder: &Path) -> Result<String, String> {
    let output = Command::new("node").arg(snarkjs).args(arguments).current_dir(folder).output().unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(text) } else { Err(text) }
}

fn write_proof(case: &Case, folder: &Path) {
    let proof = case.prove(&CpuDevice::new(2).unwrap(), Blinding::Random);
    std::fs::write(folder.join("proof.json"), proof.to_json().unwrap()).unwrap();
    std::fs::write(folder.join("public.json"), public::to_json(&case.publics())).unwrap();
}

#[test]
fn snarkjs_accepts_proofs_with_its_own_keys() {
    let Some(snarkjs) = snarkjs("snarkjs_accepts_proofs_with_its_own_keys") else { return };
    for curve in Curve::ALL {
        let folder = tempfile::tempdir().unwrap();
        write_proof(&chain(curve), folder.path());
        let key = fixture(curve, "vk.json").canonicalize().unwrap();
        let verify = ["groth16", "verify", key.to_str().unwrap(), "public.json", "proof.json"];
        let said = run(&snarkjs, &verify, folder.path()).unwrap();
        assert!(said.contains("OK!"), "{said}");
        // The oracle can say no.
        std::fs::write(folder.path().join("public.json"), "[\"1\", \"2\"]").unwrap();
        assert!(run(&snarkjs, &verify, folder.path()).is_err());
    }
}

#[test]
fn snarkjs_takes_dev_keys() {
    let Some(snarkjs) = snarkjs("snarkjs_takes_dev_keys") else { return };
    for curve in Curve::ALL {
        let (circuit, values) = squares(curve, 100, 3, 5);
        let case = circuit.case(curve, values);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::write(path.join("dev.zkey"), &case.zkey).unwrap();
        std::fs::write(path.join("dev.wtns"), wtns(curve, &case.witness.values)).unwrap();
        run(&snarkjs, &["zkey", "export", "verificationkey", "dev.zkey", "vk.json"], path).unwrap();
        write_proof(&case, path);
        let verify = ["groth16", "verify", "vk.json", "public.json", "proof.json"];
        assert!(run(&snarkjs, &verify, path).unwrap().contains("OK!"));
        // And the other way round: its proof with our key.
        run(&snarkjs, &["groth16", "prove", "dev.zkey", "dev.wtns", "theirs.json", "theirs_public.json"], path)
            .unwrap();
        let proof = Proof::from_json(&std::fs::read(path.join("theirs.json")).unwrap()).unwrap();
        assert_eq!(verify_partition(&case.circuit(), &proof, &case.publics()), Ok(true));
    }
}

fn wtns(curve: Curve, values: &[[u64; 4]]) -> Vec<u8> {
    let number = u32::to_le_bytes;
    let header = [&number(32)[..], &curve.scalar_modulus_bytes(), &number(values.len() as u32)].concat();
    let values: Vec<u8> = values.iter().flatten().flat_map(|limb| limb.to_le_bytes()).collect();
    let section = |id, payload: &[u8]| [&number(id)[..], &(payload.len() as u64).to_le_bytes(), payload].concat();
    [b"wtns", &number(2)[..], &number(2), &section(1, &header), &section(2, &values)].concat()
}
