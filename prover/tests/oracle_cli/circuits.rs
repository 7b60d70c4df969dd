//! Real circuits: zkey, generator and input.json in, a proof out that snarkjs accepts with the package's own key.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::manifest::{circuit, file, job};
use crate::npm::Npm;
use crate::place::{Place, root};

/// A circuit of a package.
struct Real {
    name: &'static str,
    /// Of the fixtures.
    input: &'static str,
    zkey: &'static str,
    wasm: &'static str,
    vkey: &'static str,
    /// Small enough for snarkjs to write its witness as JSON in no time.
    small: bool,
}

const IDEN3: &str = "@rarimo/zkp-gen-iden3/assets";

const CIRCUITS: [Real; 6] = [
    Real {
        name: "semaphore",
        input: "sem20.json",
        zkey: "@zk-kit/semaphore-artifacts/semaphore-20.zkey",
        wasm: "@zk-kit/semaphore-artifacts/semaphore-20.wasm",
        vkey: "@zk-kit/semaphore-artifacts/semaphore-20.json",
        small: true,
    },
    Real {
        name: "rln",
        input: "rln.json",
        zkey: "@waku/rln/dist/resources/rln_final.zkey",
        wasm: "@waku/rln/dist/resources/rln.wasm",
        vkey: "@waku/rln/dist/resources/verification_key.js",
        small: true,
    },
    Real {
        name: "signup",
        input: "signup.json",
        zkey: "@unirep/circuits/zksnarkBuild/signup.zkey",
        wasm: "@unirep/circuits/zksnarkBuild/signup.wasm",
        vkey: "@unirep/circuits/zksnarkBuild/signup.vkey.json",
        small: true,
    },
    Real {
        name: "transition",
        input: "ust.json",
        zkey: "@unirep/circuits/zksnarkBuild/userStateTransition.zkey",
        wasm: "@unirep/circuits/zksnarkBuild/userStateTransition.wasm",
        vkey: "@unirep/circuits/zksnarkBuild/userStateTransition.vkey.json",
        small: false,
    },
    Real {
        name: "auth",
        input: "authV2.json",
        zkey: "authV2/circuit_final.zkey",
        wasm: "authV2/circuit.wasm",
        vkey: "authV2/verification_key.json",
        small: false,
    },
    Real {
        name: "credential",
        input: "credentialAtomicQuerySigV2OnChain.json",
        zkey: "credentialAtomicQuerySigV2OnChain/circuit_final.zkey",
        wasm: "credentialAtomicQuerySigV2OnChain/circuit.wasm",
        vkey: "credentialAtomicQuerySigV2OnChain/verification_key.json",
        small: false,
    },
];

impl Real {
    fn path(&self, npm: &Npm, path: &str) -> PathBuf {
        if path.starts_with('@') { npm.file(path) } else { npm.file(IDEN3).join(path) }
    }

    fn input(&self) -> PathBuf {
        root().join("tests/fixtures/circom").join(self.input)
    }

    /// The package's verifying key as JSON; one package ships it as a JavaScript module.
    fn vkey(&self, npm: &Npm) -> String {
        let text = std::fs::read_to_string(self.path(npm, self.vkey)).unwrap();
        match text.strip_prefix("const verificationKey = ") {
            Some(module) => module.split_once(';').unwrap().0.to_owned(),
            None => text,
        }
    }
}

#[test]
fn snarkjs_accepts_proofs_of_real_circuits() {
    let Some(npm) = Npm::find("snarkjs_accepts_proofs_of_real_circuits") else { return };
    let place = Place::new();
    let mut manifest = String::new();
    for real in &CIRCUITS {
        let vkey = place.write(&format!("{}.vkey.json", real.name), real.vkey(&npm));
        manifest += &circuit(
            real.name,
            &format!(
                "zkey: {}, witnessGenerator: {}, verifyingKey: {}",
                file(real.path(&npm, real.zkey)),
                file(real.path(&npm, real.wasm)),
                file(vkey)
            ),
        );
        manifest += &job(real.name, real.name, &file(real.input()));
    }
    place.write("real.yaml", manifest);
    place.run(&["run", "-f", "real.yaml"]).expect(0);
    for real in &CIRCUITS {
        let name = real.name;
        let vkey = format!("{name}.vkey.json");
        let proofs = format!("proofs/{name}");
        assert!(npm.accepts(place.path(), Path::new(&vkey), &proofs), "{name}");
        let public = json(&place.path().join(&proofs).join("public.json"));
        let report = place.run(&["inspect", "--json", real.path(&npm, real.zkey).to_str().unwrap()]).expect(0);
        let summary: Value = serde_json::from_str(&report.stdout).unwrap();
        assert_eq!(summary["summary"]["publicSignals"], json(&place.path().join(&vkey))["nPublic"], "{name}");
        if real.small {
            assert_eq!(public, publics_of_snarkjs(&npm, &place, real), "{name}");
        }
    }
    // The oracle can say no, and a proof of one circuit is none of another.
    assert!(!npm.accepts(place.path(), Path::new("signup.vkey.json"), "proofs/transition"));
    std::fs::copy(place.path().join("proofs/signup/public.json"), place.path().join("signup.public")).unwrap();
    place.write("proofs/signup/public.json", "[\"1\",\"2\",\"3\",\"4\"]");
    assert!(!npm.accepts(place.path(), Path::new("signup.vkey.json"), "proofs/signup"));
}

/// The public signals in the witness that snarkjs computes.
fn publics_of_snarkjs(npm: &Npm, place: &Place, real: &Real) -> Value {
    let (wasm, input) = (real.path(npm, real.wasm), real.input());
    let calculate = ["wtns", "calculate", wasm.to_str().unwrap(), input.to_str().unwrap(), "their.wtns"];
    npm.snarkjs(place.path(), &calculate).unwrap();
    npm.snarkjs(place.path(), &["wtns", "export", "json", "their.wtns", "their.json"]).unwrap();
    let count = json(&place.path().join(format!("{}.vkey.json", real.name)))["nPublic"].as_u64().unwrap() as usize;
    json(&place.path().join("their.json")).as_array().unwrap()[1..=count].to_vec().into()
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}
