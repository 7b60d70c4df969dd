//! `inspect` tells files apart by content and counts right; and a chain's r1cs is what circom says it is.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use proofmill_groth16::curve::Curve;
use proofmill_groth16::format::inspect::{InspectError, Summary, inspect, inspect_source};
use proofmill_groth16::key::KeySecurity;

#[test]
fn every_kind_is_told_apart_and_counted() {
    for curve in Curve::ALL {
        let zkey = inspect(&common::fixture_path(curve, "chain.zkey")).unwrap();
        let Summary::Zkey {
            curve: found, variables, public_signals, constraints, domain, contributions, security, ..
        } = &zkey
        else {
            panic!("{zkey}")
        };
        assert_eq!((*found, *variables, *public_signals, *constraints, *domain), (curve, 3003, 2, 3000, 4096));
        assert_eq!((*contributions, *security), (Some(1), KeySecurity::Contributed));

        let imported = common::import(&common::fixture(curve, "chain.zkey")).unwrap().1;
        let imported = inspect_source(&&imported[..]).unwrap();
        let Summary::ImportedKey { constraints, domain, public_signals, source_sha256, .. } = &imported else {
            panic!("{imported}")
        };
        assert_eq!((*constraints, *domain, *public_signals, source_sha256.len()), (3000, 4096, 2, 64));

        let witness = inspect(&common::fixture_path(curve, "chain.wtns")).unwrap();
        assert_eq!(witness, Summary::Witness { curve, bytes: 96172, values: 3003 });

        let r1cs = inspect_source(&&common::chain_r1cs(curve)[..]).unwrap();
        let Summary::R1cs { constraints, wires, public_signals, outputs, public_inputs, private_inputs, .. } = &r1cs
        else {
            panic!("{r1cs}")
        };
        assert_eq!((*constraints, *wires, *public_signals), (3000, 3003, 2));
        assert_eq!((*outputs, *public_inputs, *private_inputs), (1, 1, 1));
    }
}

#[test]
fn summaries_are_tables_for_people_and_json_for_machines() {
    let summary = inspect(&common::fixture_path(Curve::Bls12381, "chain.zkey")).unwrap();
    let table = summary.to_string();
    assert!(table.lines().any(|line| line == "curve           BLS12-381"), "{table}");
    assert!(table.lines().any(|line| line == "constraints     3000"), "{table}");
    let json = serde_json::to_value(&summary).unwrap();
    assert_eq!(json["kind"], "zkey");
    assert_eq!(json["curve"], "bls12381");
    assert_eq!(json["publicSignals"], 2);
    assert_eq!(json["security"], "contributed");
}

#[test]
fn other_files_are_refused() {
    for bytes in [&b""[..], b"zk", b"\x7fELF\x02\x01\x01\0", b"{\"pi_a\": []}"] {
        assert!(matches!(inspect_source(&bytes), Err(InspectError::UnknownKind)));
    }
    assert!(matches!(inspect_source(&&b"wtns\x02\0\0\0"[..]), Err(InspectError::Wtns(_))));
    assert!(matches!(inspect("/nonexistent".as_ref()), Err(InspectError::Read(_))));
}
