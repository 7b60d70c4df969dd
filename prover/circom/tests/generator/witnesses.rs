//! Witnesses equal those of snarkjs, on both curves and for every form of an input.

use crate::features::{BN254, NEVER, circuit, features, outcome};
use crate::fixtures::{fixture, wtns_values};
use crate::integer;
use num_bigint::BigUint;
use proofmill_circom::{CircomError, CircuitLine, ErrorKind, Limits, WitnessGenerator};
use proofmill_groth16::curve::Curve;

#[test]
fn chain_equals_snarkjs_on_both_curves() {
    let input = std::fs::read(fixture("chain/input.json")).unwrap();
    for curve in [Curve::Bn254, Curve::Bls12381] {
        let file = |name: &str| std::fs::read(fixture(&format!("chain/{}/{name}", curve.snarkjs_name()))).unwrap();
        let generator = WitnessGenerator::compile(&file("chain.wasm"), Limits::default()).unwrap();
        assert_eq!(generator.curve(), curve);
        assert_eq!(generator.witness_size(), 3003);
        assert_eq!(generator.input_size(), 2);
        assert!(generator.memory_bytes() > 10_000, "{}", generator.memory_bytes());
        assert!(generator.working_memory() > 13 * 65_536 + 3003 * 32, "{}", generator.working_memory());
        let witness = generator.generate(&input, NEVER).unwrap();
        assert_eq!(witness.values, wtns_values(&file("chain.wtns")));
    }
}

#[test]
fn every_form_of_an_input_gives_snarkjs_witness() {
    let generator = features();
    let expected = wtns_values(&circuit("features.wtns"));
    let nested = String::from_utf8(circuit("features.json")).unwrap();
    assert_eq!(outcome(&generator, &nested).unwrap(), expected);
    for form in [
        // Buses as flat arrays, matrices too; the empty signal left out.
        r#"{"a":"-5","flag":1,"m":[1,2,3,4,5,-6],"p":[7,8,9],"q":[10,11,12,13,14,15,16,17,18,19,20,21],
            "s":[22,23,24,25,26,27,28,29,"123456789012345678901234567890",31]}"#,
        // Buses by qualified names; keys with escapes; other notations of the same numbers.
        r#"{"s.tag":"0x16","s.from.x":"023","s.from.y":["24","0X19"],"s.to[0].x":26,"s.to[0].y":[27,28],"s.to[1]":{"x":29,
            "y":["0x18ee90ff6c373e0ee4e3f0ad2",[[31]]]},"\u0061":-5,"flag":"1","m":[[[1],2,[[3]]],4,5,"-6"],
            "q[0][0].x":10,"q[0][0].y":[11,12],"q[0][1]":{"x":13,"y":[14,15]},"q[1]":[{"x":16,"y":[17,18]},
            {"x":19,"y":[20,21]}],"p":{"x":[7],"y":[8,9]},"nothing":[[],[]]}"#,
    ] {
        assert_eq!(outcome(&generator, form).unwrap(), expected);
    }
}

/// The circuit's outputs by hand, so that not only snarkjs stands witness: an integer is read from its digits, and -x is
/// r - x.
#[test]
fn outputs_are_the_sums_of_the_inputs() {
    let generator = features();
    let r: BigUint = BN254.parse().unwrap();
    let huge = "21888242871839275222246405745257275088548364400416034343698204186575808495616"; // r - 1, unquoted
    let zeros = "[0,0,0,0,0,0,0,0,0,0,0,0]";
    let input = format!(
        r#"{{"a":3,"flag":1,"m":[0,0,0,0,0,{huge}],"p":[9007199254740993,-0,"-1"],"q":{zeros},"s":[0,0,0,0,0,0,0,0,0,-2]}}"#
    );
    let values = outcome(&generator, &input).unwrap();
    // Weights: a 1, m 2..=7, p 8..=10, q 11..=22, s 23..=32.
    let sum = 3u64 + 9_007_199_254_740_993 - 1 - 1 - 2;
    let weighted = 3u64 + 8 * 9_007_199_254_740_993 - 7 - 10 - 2 * 32;
    assert_eq!(integer(values[1]), BigUint::from(sum));
    assert_eq!(integer(values[2]), BigUint::from(weighted));
    assert_eq!(integer(values[3]), BigUint::from(3u32));
    assert_eq!(integer(values[11]), &r - 1u32);
    assert_eq!(integer(*values.last().unwrap()), &r - 2u32);
}

#[test]
fn failed_assertions_name_template_and_line() {
    let generator = features();
    let rest = r#""m":[0,0,0,0,0,0],"p":[0,0,0],"q":[0,0,0,0,0,0,0,0,0,0,0,0],"s":[0,0,0,0,0,0,0,0,0,0]}"#;
    let source = String::from_utf8(circuit("features.circom")).unwrap();
    let line_of = |text: &str| {
        u32::try_from(source.lines().position(|line| line.contains(text)).expect("the line is there") + 1).unwrap()
    };
    for (head, line) in [
        (r#"{"a":0,"flag":1,"#, line_of("assert(in != 0)")),
        (r#"{"a":1,"flag":2,"#, line_of("flag * (flag - 1) === 0")),
    ] {
        let error = outcome(&generator, &format!("{head}{rest}")).unwrap_err();
        let CircomError::UnsatisfiedWitness { at } = &error else { panic!("{error}") };
        assert_eq!(at.first(), Some(&CircuitLine { template: "Checked_0".to_owned(), line }));
        assert_eq!(at.get(1).map(|user| user.template.as_str()), Some("Features_1"));
        assert_eq!(error.kind(), ErrorKind::Unsatisfied);
        assert!(
            error.to_string().contains(&format!("in template Checked_0, line {line} (used by template Features_1"))
        );
    }
    // The generator is as good as before.
    assert!(outcome(&generator, &format!(r#"{{"a":1,"flag":1,{rest}"#)).is_ok());
}

#[test]
fn log_is_dropped_unless_wanted() {
    let generator = features();
    let input = circuit("features.json");
    let mut lines = Vec::new();
    let logged = generator.generate_logged(&input, NEVER, &mut |line| lines.push(line.to_owned())).unwrap();
    assert_eq!(
        lines,
        [
            "sum is 123456789012345678901234568339 and weighted 3827160459382716045938271614483",
            "21888242871839275222246405745257275088548364400416034343698204186575808495612",
        ]
    );
    assert_eq!(logged.values, generator.generate(&input, NEVER).unwrap().values);
}

#[test]
fn many_threads_share_one_generator() {
    let generator = features();
    let expected = wtns_values(&circuit("features.wtns"));
    let good = circuit("features.json");
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (generator, expected, good) = (&generator, &expected, &good);
            scope.spawn(move || {
                for round in 0..20 {
                    match (thread + round) % 4 {
                        0 => assert!(matches!(
                            generator.generate(b"{}", NEVER),
                            Err(CircomError::MissingSignals { given: 0, expected: 33, signals: None })
                        )),
                        1 => assert!(matches!(generator.generate(good, &|| true), Err(CircomError::Cancelled) | Ok(_))),
                        _ => assert_eq!(&generator.generate(good, NEVER).unwrap().values, expected),
                    }
                }
            });
        }
    });
}

#[test]
fn symbols_name_what_is_missing() {
    let generator = features().with_symbols(&circuit("features.sym")).unwrap();
    let error = outcome(&generator, r#"{"a":1,"m":[1,2,3,4,5,6],"q[0]":[{"x":1,"y":[1,2]},{"x":1}],"s.from":{"x":1}}"#);
    let error = error.unwrap_err();
    let CircomError::MissingSignals { given: 12, expected: 33, signals: Some(signals) } = &error else {
        panic!("{error}")
    };
    assert_eq!(*signals, ["flag", "p", "q (4 of 12 values given)", "s (1 of 10 values given)"]);
    assert!(error.to_string().contains("missing: flag, p, q (4 of 12 values given), s (1 of 10 values given)"));
    assert!(outcome(&generator, &String::from_utf8(circuit("features.json")).unwrap()).is_ok());
    assert_eq!(features().with_symbols(b"no symbols").err(), Some(CircomError::Symbols { line: 1 }));
}
