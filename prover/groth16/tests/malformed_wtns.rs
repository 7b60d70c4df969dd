//! Malformed witnesses and constraint systems: each must end in its own error.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::Parts;
use proofmill_groth16::assignment::Witness;
use proofmill_groth16::curve::Curve;
use proofmill_groth16::format::container::ContainerError as C;
use proofmill_groth16::format::r1cs::{R1cs, R1csError as R};
use proofmill_groth16::format::wtns::{WitnessFile, WtnsError as W};
use proofmill_groth16::format::{source, sym};

const VARIABLES: u32 = 3003;

fn read_for(curve: Curve, bytes: &[u8]) -> Result<Witness, W> {
    let file = WitnessFile::read(bytes)?;
    file.check(curve, VARIABLES)?;
    Ok(file.witness)
}

#[test]
fn genuine_witnesses_are_read() {
    for curve in Curve::ALL {
        let witness = read_for(curve, &common::fixture(curve, "chain.wtns")).unwrap();
        assert_eq!(witness.values.len() as u32, VARIABLES);
        let public = common::fixture(curve, "public.json");
        let public = proofmill_groth16::format::public::parse(&public, curve, 2).unwrap();
        assert_eq!(witness.values[1..3], public[..]);
    }
}

macro_rules! cases {
    ($curve:ident, $parts:ident; $($name:literal => $expected:pat $(if $guard:expr)?, $body:expr;)*) => {{
        let mut wrong = Vec::new();
        let mut count = 0;
        $(
            count += 1;
            #[allow(unused_mut)]
            let mut $parts = Parts::of(&common::fixture($curve, "chain.wtns"));
            let bytes: Vec<u8> = $body;
            match common::within_time($name, move || read_for($curve, &bytes).map(|_| ())) {
                Err(error) => match error {
                    $expected $(if $guard)? => println!("{}: {}", $curve, $name),
                    other => wrong.push(format!("{}: {other}", $name)),
                },
                Ok(()) => wrong.push(format!("{}: accepted", $name)),
            }
        )*
        assert!(wrong.is_empty(), "{}:\n{}", $curve, wrong.join("\n"));
        count
    }};
}

#[test]
fn every_malformed_witness_ends_in_its_own_error() {
    for curve in Curve::ALL {
        let other = if curve == Curve::Bn254 { Curve::Bls12381 } else { Curve::Bn254 };
        let count = cases!(curve, parts;
            "empty" => W::Container(C::Empty { .. }), { parts.tail.clear(); Vec::new() };
            "5 bytes" => W::Container(C::TooShort { .. }), parts.bytes()[..5].to_vec();
            "truncated" => W::Container(C::SectionPastEnd { id: 2, .. }), { let b = parts.bytes(); b[..b.len() - 7].to_vec() };
            "cut in half" => W::Container(C::SectionPastEnd { id: 2, .. }), { let b = parts.bytes(); b[..b.len() / 2].to_vec() };
            "wrong magic" => W::Container(C::WrongMagic { .. }), { parts.magic = *b"zkey"; parts.bytes() };
            "version 3" => W::Container(C::UnsupportedVersion { found: 3, .. }), { parts.version = 3; parts.bytes() };
            "version 1" => W::Container(C::UnsupportedVersion { found: 1, .. }), { parts.version = 1; parts.bytes() };
            "nSections 2^32 - 1" => W::Container(C::TooManySections { .. }), { parts.count = Some(u32::MAX); parts.bytes() };
            "section length 2^63" => W::Container(C::SectionOverflow { .. }), { parts.entry(2).2 = Some(1 << 63); parts.bytes() };
            "section length 2^64 - 1" => W::Container(C::SectionOverflow { .. }), { parts.entry(1).2 = Some(u64::MAX); parts.bytes() };
            "duplicate section" => W::Container(C::DuplicateSection { id: 1, .. }), { let s = parts.entry(1).clone(); parts.sections.push(s); parts.bytes() };
            "section 1 missing" => W::Container(C::MissingSection { id: 1, .. }), { parts.sections.remove(0); parts.bytes() };
            "section 2 missing" => W::Container(C::MissingSection { id: 2, .. }), { parts.sections.remove(1); parts.bytes() };
            "trailing bytes" => W::Container(C::TrailingBytes { bytes: 3, .. }), { parts.tail = vec![1; 3]; parts.bytes() };
            "n8 48" => W::FieldSize { bytes: 48 }, { parts.put_u32(1, 0, 48); parts.bytes() };
            "n8 0" => W::FieldSize { bytes: 0 }, { parts.put_u32(1, 0, 0); parts.bytes() };
            "prime changed" => W::UnknownPrime, { parts.section(1)[9] ^= 1; parts.bytes() };
            "prime of the other curve" => W::OtherCurve { .. } | W::NotReduced { .. }, { parts.put(1, 4, &other.scalar_modulus_bytes()); parts.bytes() };
            "header short" => W::HeaderLength { found: 39 }, { parts.section(1).pop(); parts.bytes() };
            "header long" => W::HeaderLength { found: 41 }, { parts.section(1).push(0); parts.bytes() };
            "header empty" => W::HeaderLength { found: 0 }, { parts.section(1).clear(); parts.bytes() };
            "nWitness one more" => W::ValuesLength { count: 3004, .. }, { parts.put_u32(1, 36, VARIABLES + 1); parts.bytes() };
            "nWitness 2^32 - 1" => W::ValuesLength { count: u32::MAX, .. }, { parts.put_u32(1, 36, u32::MAX); parts.bytes() };
            "nWitness 0" => W::NoValues, { parts.put_u32(1, 36, 0); parts.section(2).clear(); parts.bytes() };
            "values one byte short" => W::ValuesLength { .. }, { parts.section(2).pop(); parts.bytes() };
            "another circuit's count" => W::OtherCircuit { values: 3002, variables: 3003 }, {
                parts.put_u32(1, 36, VARIABLES - 1); let n = parts.section(2).len(); parts.section(2).truncate(n - 32); parts.bytes() };
            "private value = r" => W::NotReduced { index: 100 }, { parts.put(2, 3200, &curve.scalar_modulus_bytes()); parts.bytes() };
            "public value = r" => W::NotReduced { index: 1 }, { parts.put(2, 32, &curve.scalar_modulus_bytes()); parts.bytes() };
            "last value 2^256 - 1" => W::NotReduced { index: 3002 }, { parts.put(2, 3002 * 32, &[0xff; 32]); parts.bytes() };
            "witness[0] = 2" => W::FirstNotOne, { parts.put_u32(2, 0, 2); parts.bytes() };
            "witness[0] = 0" => W::FirstNotOne, { parts.put_u32(2, 0, 0); parts.bytes() };
        );
        assert!(count >= 30);
    }
    common::assert_no_wild_allocation();
}

#[test]
fn errors_tell_no_values() {
    let mut parts = Parts::of(&common::fixture(Curve::Bn254, "chain.wtns"));
    parts.put(2, 64, &[0xab; 32]);
    let error = WitnessFile::read(&parts.bytes()[..]).map(|_| ()).unwrap_err();
    assert!(matches!(error, W::NotReduced { index: 2 }));
    assert!(!error.to_string().contains("ab"), "{error}");
}

#[test]
fn a_satisfied_witness_passes_and_the_first_failing_constraint_is_named() {
    for curve in Curve::ALL {
        let bytes = common::chain_r1cs(curve);
        let r1cs = R1cs::read(&bytes[..]).unwrap();
        assert_eq!((r1cs.header().constraints, r1cs.header().wires), (3000, VARIABLES));
        let mut witness = read_for(curve, &common::fixture(curve, "chain.wtns")).unwrap();
        assert_eq!(r1cs.unsatisfied(&witness, &|| false).unwrap(), None);

        witness.values[1500][0] ^= 1;
        let found = r1cs.unsatisfied(&witness, &|| false).unwrap().unwrap();
        assert!(found.wires.contains(&1500), "{found:?}");
        assert!(!found.wires.contains(&0));
        // Every constraint before it holds: only those with wire 1500 changed.
        let first = r1cs.for_each(|number, constraint| {
            let mut terms = constraint.a.iter().chain(&constraint.b).chain(&constraint.c);
            if terms.any(|term| term.wire == 1500) {
                std::ops::ControlFlow::Break(number)
            } else {
                std::ops::ControlFlow::Continue(())
            }
        });
        assert!(matches!(first, Ok(std::ops::ControlFlow::Break(number)) if number == found.constraint));

        let lines: String = (1..VARIABLES).map(|wire| format!("{wire},{wire},0,main.s[{wire}]\n")).collect();
        let sym = format!("{lines}9000,-1,0,main.gone\n9001,1500,0,main.alias\n");
        let names = sym::names(sym.as_bytes(), &found.wires).unwrap();
        let text = found.describe(&names);
        assert!(text.starts_with(&format!("constraint {}: signals ", found.constraint)), "{text}");
        assert!(text.contains("main.s[1500]") && !text.contains("gone") && !text.contains("alias"), "{text}");
    }
}

#[test]
fn every_malformed_r1cs_ends_in_its_own_error() {
    let original = Parts::of(&common::chain_r1cs(Curve::Bn254));
    let whole = |bytes: &[u8]| -> Result<(), R> {
        let r1cs = R1cs::read(bytes)?;
        r1cs.for_each(|_, _| std::ops::ControlFlow::<()>::Continue(())).map(|_| ())
    };
    let fails = |name: &str, change: &dyn Fn(&mut Parts), expected: &dyn Fn(&R) -> bool| {
        let mut parts = original.clone();
        change(&mut parts);
        match whole(&parts.bytes()) {
            Err(error) => assert!(expected(&error), "{name}: {error}"),
            Ok(()) => panic!("{name}: accepted"),
        }
    };
    whole(&original.bytes()).unwrap();
    fails("magic", &|p| p.magic = *b"wtns", &|e| matches!(e, R::Container(C::WrongMagic { .. })));
    fails("version 2", &|p| p.version = 2, &|e| matches!(e, R::Container(C::UnsupportedVersion { .. })));
    fails("custom gates", &|p| p.sections.push((4, vec![1, 0, 0, 0], None)), &|e| matches!(e, R::CustomGates));
    fails("custom gates used", &|p| p.sections.push((5, vec![0; 8], None)), &|e| matches!(e, R::CustomGates));
    fails("header missing", &|p| p.sections.retain(|s| s.0 != 1), &|e| {
        matches!(e, R::Container(C::MissingSection { id: 1, .. }))
    });
    fails("constraints missing", &|p| p.sections.retain(|s| s.0 != 2), &|e| {
        matches!(e, R::Container(C::MissingSection { id: 2, .. }))
    });
    fails("n8 8", &|p| p.put_u32(1, 0, 8), &|e| matches!(e, R::FieldSize { bytes: 8 }));
    fails("prime", &|p| p.section(1)[5] ^= 1, &|e| matches!(e, R::UnknownPrime));
    fails("header long", &|p| p.section(1).push(0), &|e| matches!(e, R::HeaderLength { found: 65 }));
    fails("wires 0", &|p| p.put_u32(1, 36, 0), &|e| matches!(e, R::TooManySignals { .. }));
    fails(
        "wires 2^32 - 1",
        &|p| p.put_u32(1, 36, u32::MAX),
        &|e| matches!(e, R::WireCount { wires: u32::MAX, limit } if *limit == u64::from(VARIABLES)),
    );
    let unlabelled = |parts: &mut Parts| parts.sections.retain(|s| s.0 != 3);
    fails(
        "wires 2^32 - 1 without labels",
        &|p| {
            unlabelled(p);
            p.put_u32(1, 36, u32::MAX);
        },
        &|e| matches!(e, R::WireCount { wires: u32::MAX, limit: 15_998 }),
    );
    fails("outputs 2^32 - 1", &|p| p.put_u32(1, 40, u32::MAX), &|e| matches!(e, R::TooManySignals { .. }));
    fails("constraints 2^32 - 1", &|p| p.put_u32(1, 60, u32::MAX), &|e| matches!(e, R::ConstraintCount { .. }));
    fails("one constraint more", &|p| p.put_u32(1, 60, 3001), &|e| {
        matches!(e, R::ConstraintPastEnd { constraint: 3000 })
    });
    fails("one constraint less", &|p| p.put_u32(1, 60, 2999), &|e| matches!(e, R::BytesAfterConstraints { .. }));
    fails("terms 2^32 - 1", &|p| p.put_u32(2, 0, u32::MAX), &|e| matches!(e, R::ConstraintPastEnd { constraint: 0 }));
    fails("wire out of range", &|p| p.put_u32(2, 4, VARIABLES), &|e| matches!(e, R::Wire { constraint: 0, .. }));
    fails("coefficient = r", &|p| p.put(2, 8, &Curve::Bn254.scalar_modulus_bytes()), &|e| {
        matches!(e, R::Coefficient { constraint: 0 })
    });
    // Sections 4 and 5 without content are what circom writes for plain circuits.
    let mut plain = original.clone();
    plain.sections.push((4, vec![0; 4], None));
    plain.sections.push((5, Vec::new(), None));
    whole(&plain.bytes()).unwrap();
    unlabelled(&mut plain);
    whole(&plain.bytes()).unwrap();
    let short = Witness { values: vec![[1, 0, 0, 0]] };
    let r1cs = R1cs::read(&original.bytes()[..]).map(|r| r.unsatisfied(&short, &|| false).map(|_| ()));
    assert!(matches!(r1cs, Ok(Err(R::WitnessLength { values: 1, .. }))));
}

#[test]
fn malformed_sym_lines_are_refused() {
    for (text, line) in [("1,1,1", 1), ("1,1,0,main.a\nx,1,0,main.b\n", 2), ("1,1,0,", 1), ("1,1,0,a\u{7}b", 1)] {
        let error = sym::names(text.as_bytes(), &[1]).unwrap_err();
        assert!(matches!(error, sym::SymError::Line { line: found } if found == line), "{text:?}: {error}");
    }
    let long = format!("1,1,0,{}", "a".repeat(1 << 20));
    assert!(matches!(sym::names(long.as_bytes(), &[1]), Err(sym::SymError::LineTooLong { line: 1 })));
    assert!(matches!(sym::names(&[0xff, 0xfe, b'\n'][..], &[1]), Err(sym::SymError::Line { line: 1 })));
}

#[test]
fn special_files_are_refused_without_blocking() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = common::within_time("pipe", move || source::FileSource::open(&pipe).map(|_| ()).unwrap_err());
    assert!(matches!(error, source::ReadError::NotRegular { .. }));
    for path in ["/dev/zero", "/"] {
        let error = source::FileSource::open(path.as_ref()).map(|_| ()).unwrap_err();
        assert!(matches!(error, source::ReadError::NotRegular { .. }), "{path}");
    }
    let error = source::FileSource::open("/nonexistent".as_ref()).map(|_| ()).unwrap_err();
    assert!(matches!(error, source::ReadError::Open { .. }));
}
