//! Every way an input can be wrong, with the path that the message names; none holds a value.

use crate::features::{BN254, NEVER, features, outcome};
use proofmill_circom::{CircomError, ErrorKind, Limits, ValueProblem, WitnessGenerator};

/// What an input with this member beside well-formed ones comes to.
struct Case {
    /// Replaces the member of the same signal, or is added.
    member: String,
    expected: CircomError,
}

fn value(member: &str, path: &str, problem: ValueProblem) -> Case {
    Case { member: member.to_owned(), expected: CircomError::InvalidValue { path: path.to_owned(), problem } }
}

fn other(member: &str, expected: CircomError) -> Case {
    Case { member: member.to_owned(), expected }
}

fn size(member: &str, signal: &str, expected: u32, given: usize) -> Case {
    other(member, CircomError::SignalSize { signal: signal.to_owned(), expected, given })
}

fn unknown(member: &str, signal: &str) -> Case {
    other(member, CircomError::UnknownSignal { signal: signal.to_owned() })
}

fn twice(member: &str, signal: &str) -> Case {
    other(member, CircomError::DuplicateSignal { signal: signal.to_owned() })
}

fn mixed(member: &str, path: &str) -> Case {
    other(member, CircomError::MixedArray { path: path.to_owned() })
}

/// A whole input in which `member` takes the place of its signal's member.
fn input_with(member: &str) -> String {
    let mut members = vec![
        (r#""a""#, r#""a":1"#),
        (r#""flag""#, r#""flag":1"#),
        (r#""m"#, r#""m":[1,2,3,4,5,6]"#),
        (r#""p"#, r#""p":[1,2,3]"#),
        (r#""q"#, r#""q":[1,2,3,4,5,6,7,8,9,10,11,12]"#),
        (r#""s"#, r#""s":[1,2,3,4,5,6,7,8,9,10]"#),
    ];
    members.retain(|(name, _)| !member.starts_with(name));
    let mut texts = vec![member];
    texts.extend(members.iter().map(|(_, text)| *text));
    format!("{{{}}}", texts.join(","))
}

#[test]
fn each_malformed_member_is_named_by_its_path() {
    let r_as_hex = "0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001";
    let deep = |levels: usize| format!(r#""a":{}1{}"#, "[".repeat(levels), "]".repeat(levels));
    let too_deep = |path: &str| CircomError::InputTooDeep { path: path.to_owned(), limit: 32 };
    let cases = [
        // Numbers.
        value(r#""a":1.5"#, "a", ValueProblem::Fraction),
        value(r#""a":1.0"#, "a", ValueProblem::Fraction),
        value(r#""a":-0.0"#, "a", ValueProblem::Fraction),
        value(r#""m":[1,2,3,[4,[5.5],6]]"#, "m[3][1][0]", ValueProblem::Fraction),
        value(r#""a":1e3"#, "a", ValueProblem::Exponent),
        value(r#""a":1E+3"#, "a", ValueProblem::Exponent),
        value(r#""a":1.5e1"#, "a", ValueProblem::Exponent),
        value(&format!(r#""a":{BN254}"#), "a", ValueProblem::TooLarge),
        value(&format!(r#""a":"{BN254}""#), "a", ValueProblem::TooLarge),
        value(&format!(r#""a":-{BN254}"#), "a", ValueProblem::TooLarge),
        value(&format!(r#""a":"{r_as_hex}""#), "a", ValueProblem::TooLarge),
        value(&format!(r#""m":[[1,2,3],[4,"{}",6]]"#, "9".repeat(5000)), "m[1][1]", ValueProblem::TooLarge),
        value(&format!(r#""p":{{"x":1,"y":[2,"0x{}"]}}"#, "f".repeat(65)), "p.y[1]", ValueProblem::TooLarge),
        // Strings.
        value(r#""a":"""#, "a", ValueProblem::Empty),
        value(r#""a":["1",""]"#, "a[1]", ValueProblem::Empty),
        value(r#""a":"+1""#, "a", ValueProblem::Plus),
        value(r#""a":"1.5""#, "a", ValueProblem::Fraction),
        value(r#""a":"1e3""#, "a", ValueProblem::Exponent),
        value(r#""a":" 1""#, "a", ValueProblem::NotInteger),
        value(r#""a":"1 ""#, "a", ValueProblem::NotInteger),
        value(r#""a":"1\n""#, "a", ValueProblem::NotInteger),
        value(r#""a":"0x""#, "a", ValueProblem::NotInteger),
        value(r#""a":"0xfg""#, "a", ValueProblem::NotInteger),
        value(r#""a":"-0x1""#, "a", ValueProblem::NegativeHex),
        value(r#""a":"-""#, "a", ValueProblem::NotInteger),
        value(r#""a":"--1""#, "a", ValueProblem::NotInteger),
        value(r#""a":"0b11""#, "a", ValueProblem::NotInteger),
        value(r#""a":"0o7""#, "a", ValueProblem::NotInteger),
        value(r#""a":"1n""#, "a", ValueProblem::NotInteger),
        value(r#""a":"ff""#, "a", ValueProblem::NotInteger),
        value(r#""a":"NaN""#, "a", ValueProblem::NotInteger),
        value(r#""a":"1,2""#, "a", ValueProblem::NotInteger),
        value(r#""a":"\u0661""#, "a", ValueProblem::NotInteger),
        value(r#""a":"\ud800""#, "a", ValueProblem::Escape),
        // Other types.
        value(r#""a":true"#, "a", ValueProblem::Boolean),
        value(r#""m":[1,2,3,4,5,false]"#, "m[5]", ValueProblem::Boolean),
        value(r#""a":null"#, "a", ValueProblem::Null),
        value(r#""q":[[{"x":null,"y":[1,2]}]]"#, "q[0][0].x", ValueProblem::Null),
        value(r#""q":[[{"x":1,"y":[1,2]},{"x":1,"y":[1,true]}]]"#, "q[0][1].y[1]", ValueProblem::Boolean),
        value(r#""s":{"to":[{},{"y":[[0,"x"]]}]}"#, "s.to[1].y[0][1]", ValueProblem::NotInteger),
        // Shapes.
        mixed(r#""p":[1,{"x":1}]"#, "p[1]"),
        mixed(r#""q":[[{"x":1,"y":[1,2]},7]]"#, "q[0][1]"),
        mixed(r#""q":[[[]],[3],{"x":1}]"#, "q[2]"),
        size(r#""a":[]"#, "a", 1, 0),
        size(r#""a":[1,2]"#, "a", 1, 2),
        size(r#""m":[[1,2,3],[4,5]]"#, "m", 6, 5),
        size(r#""m":[[1,2,3],[4,5,6,7]]"#, "m", 6, 7),
        size(r#""p":[1,2]"#, "p", 3, 2),
        size(r#""p":{"x":1,"y":[1,2,3]}"#, "p.y", 2, 3),
        size(r#""q[0][1]":{"x":[],"y":[1,2]}"#, "q[0][1].x", 1, 0),
        other(&deep(32), too_deep(&format!("a{}", "[0]".repeat(31)))),
        // Names.
        unknown(r#""b":1"#, "b"),
        unknown(r#""A":1"#, "A"),
        unknown(r#""":1"#, "\"\""),
        unknown(r#""":{"b":1}"#, "\"\""),
        unknown(r#""p":{"":{"x":1}}"#, "p.\"\""),
        unknown(r#""b":[]"#, "b"),
        unknown(r#""sum":1"#, "sum"),
        unknown(r#""checked.in":1"#, "checked.in"),
        unknown(r#""m[0]":[1,2,3],"m[1]":[4,5,6]"#, "m[0]"),
        unknown(r#""m":{"0":[1,2,3],"1":[4,5,6]}"#, "m.0"),
        unknown(r#""p":{"x":1,"z":[1,2]}"#, "p.z"),
        unknown(r#""p":{"x":{"x":1},"y":[1,2]}"#, "p.x.x"),
        unknown(r#""q":[{"x":1,"y":[1,2]}]"#, "q[0].x"),
        unknown(r#""q":[[{"x":1,"y":[1,2]},{"x":1,"y":[1,2]},{"x":1,"y":[1,2]}]]"#, "q[0][2].x"),
        unknown(r#""s":{"tag":1,"from":[1,2,3]}"#, "s.from"),
        unknown("\"\\u00e9\\n\":1", "é\\n"),
        twice(r#""a":1,"a":1"#, "a"),
        twice(r#""a":1,"\u0061":1"#, "a"),
        twice(r#""p":{"x":1,"y":[1,2],"x":1}"#, "p.x"),
        twice(r#""p":{"x":1},"p":{"y":[1,2]}"#, "p"),
        twice(r#""p":{"x":1,"y":[1,2]},"p.x":1"#, "p.x"),
        twice(r#""p":[1,2,3],"p.x":1"#, "p.x"),
        twice(r#""p.y":[1,2],"p":[1,2,3]"#, "p.y"),
        twice(r#""q":[1,2,3,4,5,6,7,8,9,10,11,12],"q[0][0].x":1"#, "q[0][0].x"),
    ];
    let generator = features();
    let mut checked = 0;
    for case in cases {
        let error = outcome(&generator, &input_with(&case.member)).expect_err(&case.member);
        assert_eq!(error, case.expected, "{}", case.member);
        assert_eq!(error.kind(), ErrorKind::Input);
        if let CircomError::InvalidValue { path, .. } = &error {
            assert!(error.to_string().starts_with(&format!("{path}: ")), "{error}");
        }
        checked += 1;
    }
    assert!(checked >= 60, "{checked}");
    // The members that all these were put beside are well-formed.
    assert!(outcome(&generator, &input_with(r#""a":1"#)).is_ok());
    assert!(outcome(&generator, &input_with(&deep(31))).is_ok());
}

#[test]
fn texts_that_are_no_object_of_signals() {
    let generator = features();
    for text in ["[]", "1", "\"a\"", "null", "true", "[{\"a\":1}]"] {
        assert_eq!(outcome(&generator, text), Err(CircomError::InputNotObject), "{text}");
    }
    for (text, place) in [
        ("", "line 1 column 0"),
        (" \n ", "line 2 column 1"),
        ("{", "line 1 column 1"),
        ("{\"a\":1", "line 1 column 6"),
        ("{\"a\":1}}", "line 1 column 8"),
        ("{\"a\":1} {}", "line 1 column 9"),
        ("{\"a\":}", "line 1 column 6"),
        ("{\"a\" 1}", "line 1 column 6"),
        ("{a:1}", "line 1 column 2"),
        ("{'a':1}", "line 1 column 2"),
        ("{\"a\":1,}", "line 1 column 8"),
        ("{\"a\":[1,]}", "line 1 column 9"),
        ("{\"a\":01}", "line 1 column 7"),
        ("{\"a\":+1}", "line 1 column 6"),
        ("{\"a\":0x1}", "line 1 column 7"),
        ("{\"a\":-}", "line 1 column 7"),
        ("{\"a\":1n}", "line 1 column 7"),
        ("{\"a\":NaN}", "line 1 column 6"),
        ("{\"a\":\"\\x\"}", "line 1 column 8"),
        ("{\"a\":\"\n\"}", "line 1 column 6"),
        ("{\"a\":1 // one\n}", "line 1 column 8"),
        ("\u{feff}{\"a\":1}", "line 1 column 1"),
    ] {
        let error = outcome(&generator, text).expect_err(text);
        let CircomError::InputSyntax { message } = &error else { panic!("{text}: {error}") };
        assert!(message.ends_with(place), "{text:?}: {message}");
    }
    assert_eq!(generator.generate(b"{\"a\":\"\xff\"}", NEVER).err(), Some(CircomError::InputEncoding { offset: 6 }));
    assert_eq!(generator.generate(b"\xff\xfe{\0", NEVER).err(), Some(CircomError::InputEncoding { offset: 0 }));
}

#[test]
fn missing_signals_are_counted() {
    let generator = features();
    for (text, given) in [("{}", 0), (r#"{"a":1,"p":{}}"#, 1), (r#"{"q":[[],[{"x":1},{"y":[1,2]}]]}"#, 3)] {
        let expected = CircomError::MissingSignals { given, expected: 33, signals: None };
        assert_eq!(outcome(&generator, text), Err(expected), "{text}");
    }
}

/// Messages are checked against secrets that cannot be anything else.
#[test]
fn no_message_holds_a_value() {
    let generator = features();
    let secret = "31415926535897932384626433832795";
    for value in [
        format!("{secret}.5"),
        format!("\"{secret}x\""),
        format!("\"{secret}\\ud800\""),
        format!("\"{secret}"),
        format!("{secret}x"),
        format!("[{secret},{{\"x\":{secret}}}]"),
        format!("[{secret},{secret}]"),
        secret.repeat(40),
    ] {
        let error = outcome(&generator, &input_with(&format!(r#""a":{value}"#))).expect_err(&value);
        assert!(!format!("{error} {error:?}").contains("31415"), "{error}");
    }
}

#[test]
fn sizes_and_depths_are_bounded() {
    let limits = Limits { input_bytes: 4 << 20, ..Limits::default() };
    let generator = WitnessGenerator::compile(&crate::features::circuit("features.wasm"), limits).unwrap();
    let spaces = " ".repeat((4 << 20) - 2) + "{}";
    assert!(matches!(outcome(&generator, &spaces), Err(CircomError::MissingSignals { .. })));
    assert_eq!(
        outcome(&generator, &format!(" {spaces}")),
        Err(CircomError::InputTooLarge { actual: (4 << 20) + 1, limit: 4 << 20 })
    );
    // As deep as the size allows: no recursion beyond the limit of depth.
    let brackets = format!("{{\"a\":{}{}}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert!(matches!(outcome(&generator, &brackets), Err(CircomError::InputTooDeep { .. })));
    let braces = format!("{}1{}", "{\"a\":".repeat(1 << 19), "}".repeat(1 << 19));
    assert!(matches!(outcome(&generator, &braces), Err(CircomError::InputTooDeep { .. })));
    // A flood of values is not kept: the circuit takes 33.
    let flood = format!("{{\"a\":[{}1]}}", "1,".repeat(1 << 20));
    assert_eq!(
        outcome(&generator, &flood),
        Err(CircomError::TooManyValues { path: "a[4129]".to_owned(), expected: 33 })
    );
    // A path is shown as one line of bounded length.
    let long = format!("{{\"{}\":true}}", "\\n".repeat(100_000));
    assert_eq!(
        outcome(&generator, &long),
        Err(CircomError::UnknownSignal { signal: format!("{}…", "\\n".repeat(200)) })
    );
}
