//! A circuit compiled on the spot for both curves: development keys, figures, and what is said of witnesses that do not
//! satisfy it.

use std::path::Path;

use serde_json::Value;

use crate::manifest::{circuit, file, job};
use crate::npm::Npm;
use crate::place::{Place, root};

/// Curve, as snarkjs's r1cs info names it.
const CURVES: [(&str, &str); 2] = [("bn128", "bn-128"), ("bls12381", "bls12-381")];

/// The circuit `factors` compiled in a place, with a key.
fn compiled(npm: &Npm, prime: &str) -> Place {
    let place = Place::new();
    let source = root().join("tests/fixtures/circom/factors/factors.circom");
    place.write("factors.circom", std::fs::read(source).unwrap());
    npm.circom(place.path(), "factors", prime);
    place.run(&["dev", "setup", "factors.r1cs", "-o", "factors.zkey"]).expect(0).says("INSECURE");
    place
}

/// A manifest of the circuit and one job.
fn manifest(place: &Place, more: &str, input: &str) {
    let path = |name: &str| file(place.path().join(name));
    let fields = format!("zkey: {}, witnessGenerator: {}{more}", path("factors.zkey"), path("factors_js/factors.wasm"));
    place.write("factors.yaml", circuit("factors", &fields) + &job("j", "factors", &path(input)));
}

#[test]
fn snarkjs_accepts_proofs_with_development_keys() {
    let Some(npm) = Npm::find("snarkjs_accepts_proofs_with_development_keys") else { return };
    for (curve, _) in CURVES {
        let place = compiled(&npm, curve);
        place.write("input.json", r#"{"factors": ["641", 65535]}"#);
        manifest(&place, "", "input.json");
        place.run(&["run", "-f", "factors.yaml"]).expect(0).says("insecure");
        let export = ["zkey", "export", "verificationkey", "factors.zkey", "vk.json"];
        npm.snarkjs(place.path(), &export).unwrap();
        assert!(npm.accepts(place.path(), Path::new("vk.json"), "proofs/j"), "{curve}");
        let public = std::fs::read(place.path().join("proofs/j/public.json")).unwrap();
        let public: Vec<String> = serde_json::from_slice(&public).unwrap();
        assert_eq!(public, [(641 * 65535).to_string()]);
        // And its proof with our key.
        let calculate = ["wtns", "calculate", "factors_js/factors.wasm", "input.json", "factors.wtns"];
        npm.snarkjs(place.path(), &calculate).unwrap();
        let prove = ["groth16", "prove", "factors.zkey", "factors.wtns", "proof.json", "public.json"];
        npm.snarkjs(place.path(), &prove).unwrap();
        place
            .run(&["verify", "--key", "factors.zkey", "--proof", "proof.json", "--public", "public.json"])
            .expect(0)
            .says("valid");
    }
}

#[test]
fn figures_are_snarkjs_own() {
    let Some(npm) = Npm::find("figures_are_snarkjs_own") else { return };
    for (curve, their_name) in CURVES {
        let place = compiled(&npm, curve);
        let inspect = |name: &str| -> Value {
            let ran = place.run(&["inspect", "--json", name]).expect(0);
            serde_json::from_str::<Value>(&ran.stdout).unwrap()["summary"].clone()
        };
        let info = npm.snarkjs(place.path(), &["r1cs", "info", "factors.r1cs"]).unwrap();
        let figure = |what: &str| -> u64 {
            let after = info.split(what).nth(1).unwrap_or_else(|| panic!("{what} is missing in {info}"));
            after.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
        };
        let ours = inspect("factors.r1cs");
        assert_eq!(ours["curve"], curve);
        assert!(info.contains(their_name), "{info}");
        for (field, what) in [
            ("wires", "# of Wires"),
            ("constraints", "# of Constraints"),
            ("privateInputs", "# of Private Inputs"),
            ("publicInputs", "# of Public Inputs"),
            ("labels", "# of Labels"),
            ("outputs", "# of Outputs"),
        ] {
            assert_eq!(ours[field], figure(what), "{curve} {field}");
        }
        npm.snarkjs(place.path(), &["zkey", "export", "json", "factors.zkey", "zkey.json"]).unwrap();
        let theirs: Value = serde_json::from_slice(&std::fs::read(place.path().join("zkey.json")).unwrap()).unwrap();
        let ours = inspect("factors.zkey");
        for (field, what) in [("variables", "nVars"), ("publicSignals", "nPublic"), ("domain", "domainSize")] {
            assert!(theirs[what].is_u64(), "snarkjs does not say {what}");
            assert_eq!(ours[field], theirs[what], "{curve} {field}");
        }
    }
}

#[test]
fn what_is_not_satisfied_is_named() {
    let Some(npm) = Npm::find("what_is_not_satisfied_is_named") else { return };
    for (curve, _) in CURVES {
        let place = compiled(&npm, curve);
        let path = |name: &str| file(place.path().join(name));
        // By the generator: line 13 of Bits asserts that 16 bits make the value. The factor itself is not shown.
        place.write("large.json", r#"{"factors": ["98765", "3"]}"#);
        manifest(&place, "", "large.json");
        let ran = place.run(&["run", "-f", "factors.yaml"]).expect(4).says("UnsatisfiedWitness");
        let ran = ran.says("template Bits").says("line 13");
        assert!(!ran.stdout.contains("98765") && !ran.stderr.contains("98765"), "{}{}", ran.stdout, ran.stderr);
        // By a witness of elsewhere, with another product: wire 1.
        place.write("input.json", r#"{"factors": ["641", "3"]}"#);
        let calculate = ["wtns", "calculate", "factors_js/factors.wasm", "input.json", "factors.wtns"];
        npm.snarkjs(place.path(), &calculate).unwrap();
        let mut witness = std::fs::read(place.path().join("factors.wtns")).unwrap();
        witness[76 + 32] ^= 1;
        place.write("wrong.wtns", witness);
        assert!(npm.snarkjs(place.path(), &["wtns", "check", "factors.r1cs", "factors.wtns"]).is_ok());
        let said = npm.snarkjs(place.path(), &["wtns", "check", "factors.r1cs", "wrong.wtns"]).unwrap_err();
        let constraint = said.split("at constraint ").nth(1).and_then(|text| text.split_whitespace().next());
        let constraint = constraint.unwrap_or_else(|| panic!("snarkjs names no constraint: {said}"));
        let constraints = format!(", r1cs: {}, symbols: {}", path("factors.r1cs"), path("factors.sym"));
        manifest(&place, &constraints, "wrong.wtns");
        place
            .run(&["run", "-f", "factors.yaml"])
            .expect(4)
            .says("UnsatisfiedWitness")
            .says("main.product")
            .says("main.factors[0]")
            .says("main.factors[1]")
            .says(&format!("constraint {constraint}:"));
        assert!(!place.path().join("proofs/j/proof.json").exists());
        // The right witness passes the same check.
        manifest(&place, &constraints, "factors.wtns");
        place.run(&["run", "-f", "factors.yaml"]).expect(0);
    }
}
