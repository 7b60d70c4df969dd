//! `prover import`, `inspect`, `verify`, `export` and `dev setup` as a user sees them.

use crate::common::{Place, chain};
use serde_json::Value;

fn text(path: std::path::PathBuf) -> String {
    path.to_str().unwrap().to_owned()
}

#[test]
fn import_tells_what_a_cluster_wants_to_know() {
    let place = Place::new();
    for (curve, constraints) in [("bn128", 3000), ("bls12381", 3000)] {
        let ran = place.run(&["import", "--json", &text(chain(curve).join("chain.zkey"))]).expect(0);
        let report: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
        assert_eq!(report["curve"], curve);
        assert_eq!(report["constraints"], constraints);
        assert_eq!(report["domain"], 4096);
        assert_eq!(report["publicSignals"], 2);
        assert_eq!(report["partitions"], 1);
        assert_eq!(report["insecure"], false);
        assert!(report["partitionBytes"].as_u64().unwrap() > 4096 * 32 * 2, "{report}");
    }
}

#[test]
fn an_imported_key_is_a_key() {
    let place = Place::new();
    let ran =
        place.run(&["import", "--json", "--out", "chain.key", &text(chain("bn128").join("chain.zkey"))]).expect(0);
    let report: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    place.run(&["inspect", "chain.key"]).expect(0).says("imported");
    let imported = report["importedSha256"].as_str().unwrap();
    let manifest = |sha256: &str| {
        format!(
            "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: c}}\nspec: {{groth16: {{zkey: {{url: \
             \"file:chain.key\"{sha256}}}}}}}\n---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\n\
             metadata: {{name: j}}\nspec: {{circuitRef: {{name: c}}, input: {{url: \"file://{}\"}}}}\n",
            chain("bn128").join("chain.wtns").display()
        )
    };
    place.write("with.yaml", manifest(&format!(", sha256: \"{imported}\"")));
    place.run(&["run", "-f", "with.yaml"]).expect(0);
    place.write("without.yaml", manifest(""));
    place.run(&["run", "-f", "without.yaml"]).expect(3).says("sha256");
}

#[test]
fn export_gives_the_key_that_snarkjs_gave() {
    for curve in ["bn128", "bls12381"] {
        let place = Place::new();
        place.run(&["export", "vk", &text(chain(curve).join("chain.zkey")), "-o", "vk.json"]).expect(0);
        let ours: Value = serde_json::from_slice(&std::fs::read(place.path().join("vk.json")).unwrap()).unwrap();
        let theirs: Value = serde_json::from_slice(&std::fs::read(chain(curve).join("vk.json")).unwrap()).unwrap();
        for field in ["protocol", "curve", "nPublic", "vk_alpha_1", "vk_beta_2", "vk_gamma_2", "vk_delta_2", "IC"] {
            assert_eq!(ours[field], theirs[field], "{curve} {field}");
        }
    }
}

#[test]
fn verify_judges_foreign_proofs() {
    let place = Place::new();
    for curve in ["bn128", "bls12381"] {
        let file = |name: &str| text(chain(curve).join(name));
        let verify = |key: &str, proof: &str, public: &str| {
            place.run(&["verify", "--key", key, "--proof", proof, "--public", public])
        };
        verify(&file("vk.json"), &file("proof.json"), &file("public.json")).expect(0).says("valid");
        verify(&file("chain.zkey"), &file("proof.json"), &file("public.json")).expect(0);
        let other = text(place.write("other.json", br#"["1","7"]"#));
        verify(&file("vk.json"), &file("proof.json"), &other).expect(1).says("INVALID");
        for (name, content) in
            [("short.json", "[]"), ("long.json", r#"["1","7","0"]"#), ("no.json", "{"), ("neg.json", r#"["-1","7"]"#)]
        {
            let public = text(place.write(name, content));
            verify(&file("vk.json"), &file("proof.json"), &public).expect(3);
        }
        verify(&file("chain.wtns"), &file("proof.json"), &file("public.json")).expect(3);
        verify(&file("vk.json"), &file("vk.json"), &file("public.json")).expect(3);
        verify("gone.json", &file("proof.json"), &file("public.json")).expect(3).says("gone.json");
    }
    let mixed = |name: &str, curve: &str| text(chain(curve).join(name));
    place
        .run(&[
            "verify",
            "--key",
            &mixed("vk.json", "bn128"),
            "--proof",
            &mixed("proof.json", "bls12381"),
            "--public",
            &mixed("public.json", "bn128"),
        ])
        .expect(3);
}

#[test]
fn inspect_tells_files_apart() {
    let place = Place::new();
    let file = |name: &str| text(chain("bn128").join(name));
    place.run(&["inspect", &file("chain.zkey"), &file("chain.wtns")]).expect(0).says("zkey").says("witness");
    place.run(&["inspect", "--json", &file("chain.zkey")]).expect(0).says("\"constraints\":3000");
    place.run(&["inspect", &file("proof.json"), &file("chain.zkey")]).expect(3).says("proof.json").says("3000");
}

#[test]
fn a_dev_key_is_loudly_insecure_but_proves() {
    let place = Place::new();
    let xz = chain("bn128").join("chain.r1cs.xz");
    let r1cs = std::process::Command::new("xz").args(["-dc"]).arg(xz).output().expect("xz is installed").stdout;
    place.write("chain.r1cs", r1cs);
    place.run(&["dev", "setup", "chain.r1cs", "-o", "dev.zkey", "--seed", "7"]).expect(0).says("INSECURE");
    place.run(&["dev", "setup", "chain.r1cs", "-o", "again.zkey", "--seed", "7"]).expect(0);
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert_eq!(read("dev.zkey"), read("again.zkey"));
    place.run(&["inspect", "dev.zkey"]).expect(0).says("3000");
    place.write(
        "dev.yaml",
        format!(
            "apiVersion: proofmill.dev/v1alpha1\nkind: Circuit\nmetadata: {{name: c}}\nspec: {{groth16: {{zkey: {{url: \
             \"file:dev.zkey\"}}}}}}\n---\napiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {{name: j}}\n\
             spec: {{circuitRef: {{name: c}}, input: {{url: \"file://{}\"}}}}\n",
            chain("bn128").join("chain.wtns").display()
        ),
    );
    place.run(&["run", "-f", "dev.yaml"]).expect(0).says("insecure");
    place
        .run(&["verify", "--key", "dev.zkey", "--proof", "proofs/j/proof.json", "--public", "proofs/j/public.json"])
        .expect(0);
    place.run(&["dev", "setup", &text(chain("bn128").join("chain.zkey")), "-o", "x.zkey"]).expect(3);
    assert!(!place.path().join("x.zkey").exists());
}

#[test]
fn secrets_of_a_url_are_not_shown() {
    let place = Place::new();
    let url = "s3://bucket/circuit.zkey?X-Amz-Signature=c0ffee";
    for more in [&[][..], &["--out", "circuit.key"]] {
        let arguments = [&["import", url], more].concat();
        place.run(&arguments).expect(3).says("s3://bucket/circuit.zkey?…").never_says("c0ffee");
    }
}

#[test]
fn a_cache_that_is_too_small_says_so() {
    let place = Place::new();
    place
        .run(&["import", "--key-cache-limit", "100kB", &text(chain("bn128").join("chain.zkey"))])
        .expect(5)
        .says("key cache is full");
}
