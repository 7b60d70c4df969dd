//! Manifests that are broken or meant to hurt: exit code 2, before anything is fetched.

use crate::place::Place;
use crate::refuses;

#[test]
fn manifests() {
    let place = Place::new();
    let job = "apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: j}\nspec: ";
    let bomb = (1..12).fold("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned(), |text, n| {
        let alias = format!("*a{}, ", n - 1).repeat(10);
        text + &format!("a{n}: &a{n} [{alias}]\n")
    });
    let noise: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let cases: [(&str, Vec<u8>); 15] = [
        ("empty", Vec::new()),
        ("noise", noise),
        ("zeros", vec![0; 1 << 20]),
        ("not UTF-8", b"kind: \xff\xfe".to_vec()),
        ("brackets", "[".repeat(1 << 20).into_bytes()),
        ("braces", "{a: ".repeat(1 << 18).into_bytes()),
        ("dashes", "- ".repeat(1 << 19).into_bytes()),
        ("quotes", "\"".repeat(1 << 20).into_bytes()),
        ("documents", "---\n".repeat(1 << 18).into_bytes()),
        ("bomb", bomb.into_bytes()),
        ("of no kind", b"apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n".to_vec()),
        ("a job of no circuit", format!("{job}{{circuitRef: {{name: c}}, input: {{url: \"file:x\"}}}}\n").into_bytes()),
        ("no mapping", b"- 1\n- 2\n".to_vec()),
        (
            "a huge number",
            format!(
                "{job}{{circuitRef: {{name: c}}, input: {{url: \"file:x\"}}, backoffLimit: {}}}\n",
                "9".repeat(100_000)
            )
            .into_bytes(),
        ),
        ("JSON that breaks off", br#"{"apiVersion": "proofmill.dev/v1alpha1", "kind": "Circ"#.to_vec()),
    ];
    for (name, content) in cases {
        place.write("broken.yaml", content);
        refuses(&place, name, &["run", "-f", "broken.yaml"], 2, "broken.yaml");
    }
    for path in ["/dev/zero", ".", "gone.yaml"] {
        refuses(&place, path, &["run", "-f", path], 2, path);
    }
    assert!(!place.path().join("proofs").exists());
}
