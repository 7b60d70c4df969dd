//! Malformed zkeys: every case of the formats' sheet, section 4, and every row of its table of what other provers do with
//! bad input. Each must end in its own error, on both curves, within limits of time and memory.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{HeaderPlaces, Parts};
use proofmill_groth16::curve::Curve;
use proofmill_groth16::format::container::ContainerError as C;
use proofmill_groth16::format::zkey::{DEV_SETUP_MARK, ZkeyError as Z, section};
use proofmill_groth16::key::KeySecurity;
use proofmill_groth16::key::import::ImportError;

/// A mutation and the error that it must end in.
struct Case {
    name: &'static str,
    mutate: Box<dyn Fn(Parts) -> Vec<u8>>,
    expected: fn(&Z) -> bool,
}

#[test]
fn every_malformed_bn128_zkey_ends_in_its_own_error() {
    run(Curve::Bn254);
}

#[test]
fn every_malformed_bls12381_zkey_ends_in_its_own_error() {
    run(Curve::Bls12381);
}

fn run(curve: Curve) {
    let original = Parts::of(&common::fixture(curve, "chain.zkey"));
    let cases = cases(curve);
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    let mut wrong = Vec::new();
    for Case { name, mutate, expected } in &cases {
        let bytes = mutate(original.clone());
        match common::within_time(name, move || common::import(&bytes).map(|_| ())) {
            Err(ImportError::Zkey(error)) if expected(&error) => println!("{curve}: {name}: {error}"),
            Err(other) => wrong.push(format!("{name}: {other}")),
            Ok(()) => wrong.push(format!("{name}: accepted")),
        }
    }
    assert!(wrong.is_empty(), "{curve}:\n{}", wrong.join("\n"));
    common::assert_no_wild_allocation();
}

fn cases(curve: Curve) -> Vec<Case> {
    [container_cases(), header_cases(curve), section_cases(curve), coefficient_cases(curve), point_cases(curve)]
        .into_iter()
        .flatten()
        .collect()
}

macro_rules! case {
    ($name:expr, $expected:pat $(if $guard:expr)?, move |$parts:ident| $body:expr) => {
        Case {
            name: $name,
            mutate: Box::new(move |mut $parts: Parts| {
                $body;
                $parts.bytes()
            }),
            expected: |error| matches!(error, $expected $(if $guard)?),
        }
    };
}

macro_rules! whole {
    ($name:expr, $expected:pat, move |$bytes:ident| $body:expr) => {
        Case {
            name: $name,
            mutate: Box::new(move |parts: Parts| {
                let $bytes = parts.bytes();
                $body
            }),
            expected: |error| matches!(error, $expected),
        }
    };
}

fn container_cases() -> Vec<Case> {
    let mut cases = vec![
        whole!("empty file", Z::Container(C::Empty { .. }), move |_bytes| Vec::new()),
        whole!("5 bytes", Z::Container(C::TooShort { length: 5, .. }), move |bytes| bytes[..5].to_vec()),
        whole!("cut by 100 bytes", Z::Container(C::SectionPastEnd { id: 10, .. }), move |bytes| {
            bytes[..bytes.len() - 100].to_vec()
        }),
        whole!("cut in half", Z::Container(C::SectionPastEnd { .. }), move |bytes| bytes[..bytes.len() / 2].to_vec()),
        whole!("cut within a section's header", Z::Container(C::MissingSectionHeader { .. }), move |bytes| {
            // Section 1 is whole, of the next one's header 8 bytes are there.
            let mut cut = bytes[..12 + 16 + 8].to_vec();
            cut[8..12].copy_from_slice(&2u32.to_le_bytes());
            cut
        }),
        case!("wrong magic", Z::Container(C::WrongMagic { .. }), move |parts| parts.magic = *b"wtns"),
        case!("unprintable magic", Z::Container(C::WrongMagic { .. }), move |parts| parts.magic = [0x7f, 1, 2, 3]),
        case!("version 99", Z::Container(C::UnsupportedVersion { found: 99, .. }), move |parts| parts.version = 99),
        case!("version 0", Z::Container(C::UnsupportedVersion { found: 0, .. }), move |parts| parts.version = 0),
        case!("nSections 0xffffffff", Z::Container(C::TooManySections { .. }), move |parts| {
            parts.count = Some(u32::MAX)
        }),
        case!("nSections one more", Z::Container(C::MissingSectionHeader { .. }), move |parts| {
            parts.count = Some(parts.sections.len() as u32 + 1)
        }),
        case!("nSections one less", Z::Container(C::TrailingBytes { .. }), move |parts| {
            parts.count = Some(parts.sections.len() as u32 - 1)
        }),
        case!("nSections 0", Z::Container(C::TrailingBytes { .. }), move |parts| parts.count = Some(0)),
        case!("section length 2^63", Z::Container(C::SectionOverflow { id: 5, .. }), move |parts| {
            parts.entry(5).2 = Some(1 << 63)
        }),
        case!("section length 2^64 - 1", Z::Container(C::SectionOverflow { id: 5, .. }), move |parts| {
            parts.entry(5).2 = Some(u64::MAX)
        }),
        case!("section length 2^64 - 12 wraps around", Z::Container(C::SectionOverflow { id: 2, .. }), move |parts| {
            parts.entry(2).2 = Some(u64::MAX - 11)
        }),
        case!("section length 2^40", Z::Container(C::SectionPastEnd { id: 9, .. }), move |parts| {
            parts.entry(9).2 = Some(1 << 40)
        }),
        case!("duplicate section", Z::Container(C::DuplicateSection { id: 3, .. }), move |parts| {
            let copy = parts.entry(3).clone();
            parts.sections.push(copy)
        }),
        case!("trailing byte", Z::Container(C::TrailingBytes { bytes: 1, .. }), move |parts| parts.tail = vec![0]),
        case!("two files joined", Z::Container(C::TrailingBytes { .. }), move |parts| parts.tail = parts.bytes()),
    ];
    let names = [
        "section 1 missing",
        "section 2 missing",
        "section 3 missing",
        "section 4 missing",
        "section 5 missing",
        "section 6 missing",
        "section 7 missing",
        "section 8 missing",
        "section 9 missing",
    ];
    for (id, name) in (1..).zip(names) {
        cases.push(case!(name, Z::Container(C::MissingSection { .. }), move |parts| {
            parts.sections.retain(|section| section.0 != id)
        }));
    }
    cases
}

fn header_cases(curve: Curve) -> Vec<Case> {
    let at = HeaderPlaces::on(curve);
    let q_bytes = curve.base_field_bytes();
    let other = if curve == Curve::Bn254 { Curve::Bls12381 } else { Curve::Bn254 };
    let HeaderPlaces { n8q, q, n8r, r, variables, public, domain, .. } = at;
    vec![
        case!("protocol plonk", Z::OtherProtocol { name } if name == "plonk", move |parts| parts.put_u32(1, 0, 2)),
        case!("protocol fflonk", Z::OtherProtocol { name } if name == "fflonk", move |parts| parts.put_u32(1, 0, 10)),
        case!("protocol 7", Z::OtherProtocol { .. }, move |parts| parts.put_u32(1, 0, 7)),
        case!("protocol section of 8 bytes", Z::SectionLength { id: 1, .. }, move |parts| {
            parts.section(1).extend([0; 4])
        }),
        case!("n8q of the other curve", Z::UnknownPrime { field: "q" }, move |parts| {
            parts.put_u32(2, n8q, 80 - q_bytes as u32)
        }),
        case!("n8q 31", Z::FieldSize { field: "q", bytes: 31 }, move |parts| parts.put_u32(2, n8q, 31)),
        case!("n8q 0xffffffff", Z::FieldSize { field: "q", .. }, move |parts| parts.put_u32(2, n8q, u32::MAX)),
        case!("n8r 48", Z::FieldSize { field: "r", bytes: 48 }, move |parts| parts.put_u32(2, n8r, 48)),
        case!("n8r 0", Z::FieldSize { field: "r", bytes: 0 }, move |parts| parts.put_u32(2, n8r, 0)),
        case!("q changed", Z::UnknownPrime { field: "q" }, move |parts| parts.section(2)[q + 3] ^= 1),
        case!("r changed", Z::UnknownPrime { field: "r" }, move |parts| parts.section(2)[r + 3] ^= 1),
        case!("r of the other curve", Z::CurveMismatch { .. }, move |parts| {
            parts.put(2, r, &other.scalar_modulus_bytes())
        }),
        case!("header one byte short", Z::HeaderLength { .. }, move |parts| parts
            .section(2)
            .truncate(parts_length(curve) - 1)),
        case!("header one byte long", Z::HeaderLength { .. }, move |parts| parts.section(2).push(0)),
        case!("header empty", Z::HeaderLength { found: 0, .. }, move |parts| parts.section(2).clear()),
        case!("header ends within q", Z::HeaderLength { .. }, move |parts| parts.section(2).truncate(10)),
        case!("nVars 0", Z::NoVariables, move |parts| parts.put_u32(2, variables, 0)),
        case!("nVars one more", Z::SectionLength { id: 5, .. }, move |parts| {
            let n = parts.get_u32(2, variables);
            parts.put_u32(2, variables, n + 1)
        }),
        case!("nVars 0xffffffff", Z::SectionLength { .. }, move |parts| parts.put_u32(2, variables, u32::MAX)),
        case!("nPublic = nVars", Z::PublicExceedsVariables { .. }, move |parts| {
            let n = parts.get_u32(2, variables);
            parts.put_u32(2, public, n)
        }),
        case!("nPublic 0xffffffff", Z::PublicExceedsVariables { .. }, move |parts| parts.put_u32(2, public, u32::MAX)),
        case!("nPublic one more", Z::SectionLength { id: 3, .. }, move |parts| {
            let n = parts.get_u32(2, public);
            parts.put_u32(2, public, n + 1)
        }),
        case!("domain 0", Z::DomainNotPowerOfTwo { size: 0 }, move |parts| parts.put_u32(2, domain, 0)),
        case!("domain 3", Z::DomainNotPowerOfTwo { size: 3 }, move |parts| parts.put_u32(2, domain, 3)),
        case!("domain 8", Z::SectionLength { id: 9, .. }, move |parts| parts.put_u32(2, domain, 8)),
        case!("domain 2, below the public rows", Z::DomainTooSmall { .. }, move |parts| parts.put_u32(2, domain, 2)),
        case!("domain 2^28", Z::DomainTooLarge { log: 28, .. }, move |parts| parts.put_u32(2, domain, 1 << 28)),
        case!("domain 2^31", Z::DomainTooLarge { log: 31, .. }, move |parts| parts.put_u32(2, domain, 1 << 31)),
    ]
}

fn parts_length(curve: Curve) -> usize {
    if curve == Curve::Bn254 { 660 } else { 964 }
}

fn section_cases(curve: Curve) -> Vec<Case> {
    let g1 = 2 * curve.base_field_bytes();
    let mut cases = Vec::new();
    for (id, short, missing, long) in [
        (3, "IC one byte short", "IC one point short", "IC one point long"),
        (5, "A one byte short", "A one point short", "A one point long"),
        (6, "B1 one byte short", "B1 one point short", "B1 one point long"),
        (7, "B2 one byte short", "B2 one point short", "B2 one point long"),
        (8, "C one byte short", "C one point short", "C one point long"),
        (9, "H one byte short", "H one point short", "H one point long"),
    ] {
        cases.push(case!(short, Z::SectionLength { .. }, move |parts| {
            parts.section(id).pop();
        }));
        cases.push(case!(missing, Z::SectionLength { .. }, move |parts| {
            let length = parts.section(id).len();
            parts.section(id).truncate(length - g1)
        }));
        cases.push(case!(long, Z::SectionLength { .. }, move |parts| parts.section(id).extend(vec![0; g1])));
    }
    cases.push(case!("1000 contributions claimed", Z::ContributionCount { count: 1000, .. }, move |parts| {
        parts.put_u32(10, 64, 1000)
    }));
    cases.push(case!("2^32 - 1 contributions claimed", Z::ContributionCount { .. }, move |parts| {
        parts.put_u32(10, 64, u32::MAX)
    }));
    cases.push(case!("section 10 of 10 bytes", Z::ContributionCount { found: 10, .. }, move |parts| {
        parts.section(10).truncate(10)
    }));
    cases
}

fn coefficient_cases(curve: Curve) -> Vec<Case> {
    const ENTRY: usize = 4 + 7 * 44;
    let domain = HeaderPlaces::on(curve).domain;
    let variables = HeaderPlaces::on(curve).variables;
    let r = curve.scalar_modulus_bytes();
    vec![
        case!("coefficient count + 1000", Z::CoefficientCount { .. }, move |parts| {
            let n = parts.get_u32(4, 0);
            parts.put_u32(4, 0, n + 1000)
        }),
        case!("coefficient count 2^32 - 1", Z::CoefficientCount { count: u32::MAX, .. }, move |parts| {
            parts.put_u32(4, 0, u32::MAX)
        }),
        case!("coefficients one byte short", Z::CoefficientCount { .. }, move |parts| {
            parts.section(4).pop();
        }),
        case!("coefficients without a count", Z::CoefficientCount { found: 3, .. }, move |parts| {
            parts.section(4).truncate(3)
        }),
        case!("no coefficients", Z::NoCoefficients, move |parts| *parts.section(4) = vec![0; 4]),
        case!("coefficient of matrix 2", Z::CoefficientMatrix { index: 7, matrix: 2 }, move |parts| {
            parts.put_u32(4, ENTRY, 2)
        }),
        case!("coefficient of matrix 7", Z::CoefficientMatrix { index: 7, matrix: 7 }, move |parts| {
            parts.put_u32(4, ENTRY, 7)
        }),
        case!("coefficient in row = domain", Z::CoefficientRow { index: 7, .. }, move |parts| {
            let n = parts.get_u32(2, domain);
            parts.put_u32(4, ENTRY + 4, n)
        }),
        case!("coefficient in row 2^32 - 1", Z::CoefficientRow { index: 7, .. }, move |parts| {
            parts.put_u32(4, ENTRY + 4, u32::MAX)
        }),
        case!("coefficient of signal = nVars", Z::CoefficientSignal { index: 7, .. }, move |parts| {
            let n = parts.get_u32(2, variables);
            parts.put_u32(4, ENTRY + 8, n)
        }),
        case!("coefficient of signal 2^32 - 1", Z::CoefficientSignal { index: 7, .. }, move |parts| {
            parts.put_u32(4, ENTRY + 8, u32::MAX)
        }),
        case!("coefficient value = r", Z::CoefficientValue { index: 7 }, move |parts| parts.put(4, ENTRY + 12, &r)),
        case!("coefficient value 2^256 - 1", Z::CoefficientValue { index: 7 }, move |parts| {
            parts.put(4, ENTRY + 12, &[0xff; 32])
        }),
    ]
}

fn point_cases(curve: Curve) -> Vec<Case> {
    let n = curve.base_field_bytes();
    let at = HeaderPlaces::on(curve);
    let mut cases = Vec::new();
    // Point 1 of each section: A of the first public signal, which is never at infinity.
    for (id, size, reduced, ones, off) in [
        (3, 2 * n, "coordinate = q in IC", "coordinate of ones in IC", "point off the curve in IC"),
        (5, 2 * n, "coordinate = q in A", "coordinate of ones in A", "point off the curve in A"),
        (6, 2 * n, "coordinate = q in B1", "coordinate of ones in B1", "point off the curve in B1"),
        (7, 4 * n, "coordinate = q in B2", "coordinate of ones in B2", "point off the curve in B2"),
        (8, 2 * n, "coordinate = q in C", "coordinate of ones in C", "point off the curve in C"),
        (9, 2 * n, "coordinate = q in H", "coordinate of ones in H", "point off the curve in H"),
    ] {
        cases.push(case!(reduced, Z::Coordinate { index: 1, .. }, move |parts| {
            parts.put(id, size, &common::base_modulus_plus(curve, 0))
        }));
        cases.push(case!(ones, Z::Coordinate { index: 1, .. }, move |parts| parts.put(id, size + n, &vec![0xff; n])));
        cases.push(case!(off, Z::OffCurve { .. }, move |parts| {
            let place = first_point(parts.section(id), size);
            parts.section(id)[place] ^= 1
        }));
    }
    cases.push(case!("second part of a G2 coordinate = q + 1", Z::Coordinate { index: 1, .. }, move |parts| {
        parts.put(7, 4 * n + n, &common::base_modulus_plus(curve, 1))
    }));
    cases.push(case!("y = 0 with x != 0 in A", Z::OffCurve { index: 1, .. }, move |parts| {
        parts.put(5, 2 * n + n, &vec![0; n])
    }));
    cases.push(case!(
        "x = 0 with y != 0 in A",
        Z::OffCurve { index: 1, .. } | Z::OutsideSubgroup { index: 1, .. },
        move |parts| parts.put(5, 2 * n, &common::zero_x_g1(curve))
    ));
    cases.push(case!("infinity in H", Z::Infinity { section: "H", index: 5 }, move |parts| {
        parts.put(9, 10 * n, &vec![0; 2 * n])
    }));
    cases.push(case!("infinity in B1 alone", Z::InconsistentB { .. }, move |parts| {
        let place = first_point(parts.section(6), 2 * n);
        parts.put(6, place, &vec![0; 2 * n])
    }));
    cases.push(case!("infinity in B2 alone", Z::InconsistentB { .. }, move |parts| {
        let place = first_point(parts.section(7), 4 * n);
        parts.put(7, place, &vec![0; 4 * n])
    }));
    for (name, place, size) in [
        ("alpha at infinity", at.alpha1, 2 * n),
        ("beta1 at infinity", at.beta1, 2 * n),
        ("beta2 at infinity", at.beta2, 4 * n),
        ("gamma2 at infinity", at.gamma2, 4 * n),
        ("delta1 at infinity", at.delta1, 2 * n),
        ("delta2 at infinity", at.delta2, 4 * n),
    ] {
        cases.push(case!(name, Z::Infinity { index: 0, .. }, move |parts| parts.put(2, place, &vec![0; size])));
    }
    for (name, place) in
        [("alpha off the curve", at.alpha1), ("beta2 off the curve", at.beta2), ("gamma2 off the curve", at.gamma2)]
    {
        cases.push(case!(name, Z::OffCurve { .. }, move |parts| parts.section(2)[place] ^= 1));
    }
    cases.push(case!("alpha's coordinate = q", Z::Coordinate { .. }, move |parts| {
        parts.put(2, at.alpha1, &common::base_modulus_plus(curve, 0))
    }));
    cases.push(case!("delta1 of another scalar", Z::Inconsistent { name: "delta" }, move |parts| {
        parts.put(2, at.delta1, &common::other_g1(curve))
    }));
    cases.push(case!("beta1 of another scalar", Z::Inconsistent { name: "beta" }, move |parts| {
        parts.put(2, at.beta1, &common::other_g1(curve))
    }));
    for (name, place) in [
        ("beta2 outside the subgroup", at.beta2),
        ("gamma2 outside the subgroup", at.gamma2),
        ("delta2 outside the subgroup", at.delta2),
    ] {
        cases.push(case!(name, Z::OutsideSubgroup { .. }, move |parts| parts.put(2, place, &common::stray_g2(curve))));
    }
    cases.push(case!("a point of B2 outside the subgroup", Z::OutsideSubgroup { section: "B2", .. }, move |parts| {
        let place = first_point(parts.section(7), 4 * n);
        parts.put(7, place, &common::stray_g2(curve))
    }));
    if curve == Curve::Bls12381 {
        for (id, name) in [
            (3, "a point of IC outside the subgroup"),
            (5, "a point of A outside the subgroup"),
            (6, "a point of B1 outside the subgroup"),
            (8, "a point of C outside the subgroup"),
            (9, "a point of H outside the subgroup"),
        ] {
            cases.push(case!(name, Z::OutsideSubgroup { .. }, move |parts| {
                let place = first_point(parts.section(id), 2 * n);
                parts.put(id, place, &common::stray_g1())
            }));
        }
        cases.push(case!("alpha outside the subgroup", Z::OutsideSubgroup { .. }, move |parts| {
            parts.put(2, at.alpha1, &common::stray_g1())
        }));
    }
    cases
}

/// Where the first point that is not at infinity lies.
fn first_point(section: &[u8], size: usize) -> usize {
    section.chunks_exact(size).position(|point| point.iter().any(|byte| *byte != 0)).unwrap() * size
}

/// What is odd but right must pass: another order of sections, sections of unknown number, no contributions' section,
/// split coefficients.
#[test]
fn odd_but_valid_zkeys_are_imported() {
    let original = Parts::of(&common::fixture(Curve::Bn254, "chain.zkey"));
    let (plain, plain_bytes) = common::import(&original.bytes()).unwrap();
    let content = |bytes: &[u8], header: &proofmill_groth16::key::layout::Header, part| {
        let entry = header.entry(part);
        bytes[entry.offset as usize..(entry.offset + entry.length) as usize].to_vec()
    };
    let same = |name: &str, parts: &Parts| {
        let (header, bytes) = common::import(&parts.bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
        for part in proofmill_groth16::key::layout::Part::ALL {
            assert_eq!(content(&bytes, &header, part), content(&plain_bytes, &plain, part), "{name}: {part}");
        }
        assert_eq!(header.constraints, 3000, "{name}");
        header
    };

    let mut reversed = original.clone();
    reversed.sections.reverse();
    same("sections reversed", &reversed);

    let mut unknown = original.clone();
    unknown.sections.insert(3, (77, vec![1; 5000], None));
    same("an unknown section", &unknown);

    let mut bare = original.clone();
    bare.sections.retain(|section| section.0 != 10);
    assert_eq!(same("no contributions' section", &bare).contributions, None);
    assert_eq!(plain.contributions, Some(1));

    let mut marked = original.clone();
    marked.sections.push((section::DEV_SETUP, DEV_SETUP_MARK.to_vec(), None));
    assert_eq!(same("marked as dev setup", &marked).security, KeySecurity::DevSetup);
    assert_eq!(plain.security, KeySecurity::Contributed);

    let mut shuffled = original.clone();
    let entries = shuffled.section(4)[4..].to_vec();
    let reordered: Vec<u8> = entries.chunks_exact(44).rev().flatten().copied().collect();
    shuffled.section(4)[4..].copy_from_slice(&reordered);
    let (header, bytes) = common::import(&shuffled.bytes()).unwrap();
    for part in [
        proofmill_groth16::key::layout::Part::MatrixARows,
        proofmill_groth16::key::layout::Part::MatrixAWires,
        proofmill_groth16::key::layout::Part::MatrixBRows,
        proofmill_groth16::key::layout::Part::MatrixBWires,
    ] {
        assert_eq!(content(&bytes, &header, part), content(&plain_bytes, &plain, part), "entries reversed: {part}");
    }
}

/// delta2 = gamma2 (and delta1 = G): nobody contributed, so anybody can forge.
#[test]
fn a_key_without_contribution_is_told_apart() {
    for curve in Curve::ALL {
        let at = HeaderPlaces::on(curve);
        let n = curve.base_field_bytes();
        let mut parts = Parts::of(&common::fixture(curve, "chain.zkey"));
        let gamma2 = parts.section(2)[at.gamma2..at.gamma2 + 4 * n].to_vec();
        parts.put(2, at.delta2, &gamma2);
        // gamma = 1 in snarkjs's keys, so delta1 is the generator.
        parts.put(2, at.delta1, &common::generator_g1(curve));
        let (header, _) = common::import(&parts.bytes()).unwrap();
        assert_eq!(header.security, KeySecurity::NoContribution);
    }
}
