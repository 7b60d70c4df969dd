//! Proofs across the border on both curves: ours for snarkjs, snarkjs's for `prover verify`.

use crate::manifest::{circuit, file, job};
use crate::npm::Npm;
use crate::place::{Place, chain};

#[test]
fn both_curves_both_ways() {
    let Some(npm) = Npm::find("both_curves_both_ways") else { return };
    for curve in ["bn128", "bls12381"] {
        let place = Place::new();
        let folder = chain(curve);
        let zkey = folder.join("chain.zkey");
        let fields = format!("zkey: {}, witnessGenerator: {}", file(&zkey), file(folder.join("chain.wasm")));
        let jobs = [
            circuit("c", &fields),
            job("from-json", "c", &file(folder.join("../input.json"))),
            job("from-witness", "c", &file(folder.join("chain.wtns"))),
        ];
        place.write("chain.yaml", jobs.concat());
        place.run(&["run", "-f", "chain.yaml"]).expect(0);
        place.run(&["export", "vk", zkey.to_str().unwrap(), "-o", "ours.json"]).expect(0);
        for proofs in ["proofs/from-json", "proofs/from-witness"] {
            assert!(npm.accepts(place.path(), &folder.join("vk.json"), proofs), "{curve} {proofs}");
            assert!(npm.accepts(place.path(), &place.path().join("ours.json"), proofs), "{curve} {proofs}");
        }
        // A fresh proof of snarkjs, with its key and with ours.
        let (zkey, wtns) = (zkey.to_str().unwrap(), folder.join("chain.wtns"));
        let prove = ["groth16", "prove", zkey, wtns.to_str().unwrap(), "proof.json", "public.json"];
        npm.snarkjs(place.path(), &prove).unwrap();
        for key in [zkey, "ours.json", folder.join("vk.json").to_str().unwrap()] {
            place
                .run(&["verify", "--key", key, "--proof", "proof.json", "--public", "public.json"])
                .expect(0)
                .says("valid");
        }
        // One proof's points swapped for another's: a proof of nothing.
        let ours = std::fs::read_to_string(place.path().join("proofs/from-json/proof.json")).unwrap();
        let theirs = std::fs::read_to_string(place.path().join("proof.json")).unwrap();
        let mut mixed: serde_json::Value = serde_json::from_str(&ours).unwrap();
        mixed["pi_c"] = serde_json::from_str::<serde_json::Value>(&theirs).unwrap()["pi_c"].clone();
        place.write("proof.json", mixed.to_string());
        assert!(!npm.accepts(place.path(), &folder.join("vk.json"), "."));
        place
            .run(&["verify", "--key", zkey, "--proof", "proof.json", "--public", "public.json"])
            .expect(1)
            .says("INVALID");
    }
}
