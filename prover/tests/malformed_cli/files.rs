//! Keys, witnesses, constraint systems and proofs that are broken on purpose.

use std::ops::Range;

use crate::manifest::{circuit, file, job};
use crate::place::{Place, chain};
use crate::{bounded, limited, refuses};

/// A name and the broken bytes.
type Broken = (&'static str, Vec<u8>);

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(chain("bn128").join(name)).unwrap()
}

/// Where the payload of a section of iden3's container lies.
fn section(bytes: &[u8], id: u32) -> Range<usize> {
    let mut at = 12;
    while at < bytes.len() {
        let found = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let length = u64::from_le_bytes(bytes[at + 4..at + 12].try_into().unwrap()) as usize;
        if found == id {
            return at + 12..at + 12 + length;
        }
        at += 12 + length;
    }
    panic!("no section {id}");
}

fn with(mut bytes: Vec<u8>, at: usize, new: &[u8]) -> Vec<u8> {
    bytes[at..at + new.len()].copy_from_slice(new);
    bytes
}

/// Damage that any file of the container can have.
fn broken_containers(whole: &[u8]) -> Vec<Broken> {
    let first = 12;
    vec![
        ("empty", Vec::new()),
        ("magic only", whole[..4].to_vec()),
        ("half", whole[..whole.len() / 2].to_vec()),
        ("one byte short", whole[..whole.len() - 1].to_vec()),
        ("version", with(whole.to_vec(), 4, &99u32.to_le_bytes())),
        ("sections without end", with(whole.to_vec(), 8, &u32::MAX.to_le_bytes())),
        ("no sections", with(whole.to_vec(), 8, &0u32.to_le_bytes())),
        ("endless section", with(whole.to_vec(), first + 4, &u64::MAX.to_le_bytes())),
        ("terabyte section", with(whole.to_vec(), first + 4, &(1u64 << 40).to_le_bytes())),
        ("section of another number", with(whole.to_vec(), first, &77u32.to_le_bytes())),
        ("zeros after the magic", [&whole[..4], &[0; 1 << 16]].concat()),
    ]
}

fn broken_zkeys() -> Vec<Broken> {
    let whole = fixture("chain.zkey");
    let header = section(&whole, 2).start;
    let (coefficients, a, h) = (section(&whole, 4).start, section(&whole, 5).start, section(&whole, 9).start);
    let max = u32::MAX.to_le_bytes();
    let edit = |at: usize, new: &[u8]| with(whole.clone(), at, new);
    let mut broken = broken_containers(&whole);
    broken.extend([
        ("plonk", edit(section(&whole, 1).start, &2u32.to_le_bytes())),
        ("elements of 4 GiB", edit(header, &max)),
        ("another prime", edit(header + 4, &[7; 32])),
        ("wires without end", edit(header + 72, &max)),
        ("public signals without end", edit(header + 76, &max)),
        ("domain of 2^31", edit(header + 80, &(1u32 << 31).to_le_bytes())),
        ("domain of 2^12 - 1", edit(header + 80, &4095u32.to_le_bytes())),
        ("domain of 0", edit(header + 80, &0u32.to_le_bytes())),
        ("coefficients without end", edit(coefficients, &max)),
        ("coefficient of a third matrix", edit(coefficients + 4, &2u32.to_le_bytes())),
        ("coefficient of no constraint", edit(coefficients + 8, &max)),
        ("coefficient of no wire", edit(coefficients + 12, &max)),
        ("coefficient above the prime", edit(coefficients + 16, &[0xff; 32])),
        ("point off the curve", edit(a + 64, &[1; 64])),
        ("coordinate above the prime", edit(h, &[0xff; 32])),
        ("alpha off the curve", edit(header + 84, &[1; 64])),
    ]);
    broken
}

#[test]
fn zkeys() {
    let place = Place::new();
    let mut manifest = circuit("good", &format!("zkey: {}", file(chain("bn128").join("chain.zkey"))));
    let input = file(chain("bn128").join("chain.wtns"));
    manifest += &job("good", "good", &input);
    let broken = broken_zkeys();
    for (index, (name, bytes)) in broken.iter().enumerate() {
        let path = place.write(&format!("{index}.zkey"), bytes);
        let file_name = format!("{index}.zkey");
        refuses(&place, name, &["import", &file_name], 3, &file_name);
        manifest += &circuit(&format!("c{index}"), &format!("zkey: {}", file(path)));
        manifest += &job(&format!("j{index}"), &format!("c{index}"), &input);
        // What only the content of sections shows, `inspect` does not look for.
        let inspected = limited(&place, &["inspect", &file_name]);
        assert!(matches!(inspected.code, Some(0 | 3)), "{name}: {}{}", inspected.stdout, inspected.stderr);
    }
    // All in one run, one of them good: the others fail for their own sake.
    place.write("all.yaml", manifest);
    let ran = limited(&place, &["run", "-f", "all.yaml"]).expect(3);
    let ran =
        ran.says("good: proved and verified").says(&format!("{} of {} jobs failed", broken.len(), broken.len() + 1));
    for (index, (name, _)) in broken.iter().enumerate() {
        let line = ran.stdout.lines().chain(ran.stderr.lines()).find(|line| line.contains(&format!("j{index}: ")));
        assert!(line.is_some_and(|line| line.contains("BadKey")), "{name}: {line:?}");
    }
    assert_eq!(std::fs::read_dir(place.path().join("cache/proofmill/keys/keys")).unwrap().count(), 1);
    bounded("all zkeys");
}

#[test]
fn witnesses() {
    let place = Place::new();
    let whole = fixture("chain.wtns");
    let (header, values) = (section(&whole, 1).start, section(&whole, 2).start);
    let max = u32::MAX.to_le_bytes();
    let edit = |at: usize, new: &[u8]| with(whole.clone(), at, new);
    let mut broken = broken_containers(&whole);
    broken.extend([
        ("elements of 4 GiB", edit(header, &max)),
        ("elements of nothing", edit(header, &[0; 4])),
        ("another prime", edit(header + 4, &[7; 32])),
        ("values without end", edit(header + 36, &max)),
        ("no values", edit(header + 36, &[0; 4])),
        ("a value above the prime", edit(values + 32 * 5, &[0xff; 32])),
        ("a constant that is not 1", edit(values, &[2])),
    ]);
    let mut manifest = circuit("c", &format!("zkey: {}", file(chain("bn128").join("chain.zkey"))));
    for (index, (_, bytes)) in broken.iter().enumerate() {
        let path = place.write(&format!("{index}.wtns"), bytes);
        manifest += &job(&format!("j{index}"), "c", &file(path));
    }
    place.write("all.yaml", manifest);
    let ran =
        limited(&place, &["run", "-f", "all.yaml"]).expect(3).says(&format!("{0} of {0} jobs failed", broken.len()));
    for (index, (name, _)) in broken.iter().enumerate() {
        let line = ran.stdout.lines().chain(ran.stderr.lines()).find(|line| line.contains(&format!("j{index}: ")));
        assert!(line.is_some_and(|line| line.contains("BadInput")), "{name}: {line:?}");
    }
    assert!(!place.path().join("proofs").exists());
    bounded("witnesses");
}

#[test]
fn constraint_systems_and_names() {
    let place = Place::new();
    let xz = chain("bn128").join("chain.r1cs.xz");
    let whole = std::process::Command::new("xz").arg("-dc").arg(xz).output().expect("xz is installed").stdout;
    let (header, constraints) = (section(&whole, 1).start, section(&whole, 2).start);
    let max = u32::MAX.to_le_bytes();
    let edit = |at: usize, new: &[u8]| with(whole.clone(), at, new);
    let mut broken = broken_containers(&whole);
    broken.extend([
        ("wires without end", edit(header + 36, &max)),
        ("constraints without end", edit(header + 60, &max)),
        ("another prime", edit(header + 4, &[7; 32])),
        ("terms without end", edit(constraints, &max)),
        ("a term of no wire", edit(constraints + 4, &max)),
    ]);
    for (index, (name, bytes)) in broken.iter().enumerate() {
        let path = place.write(&format!("{index}.r1cs"), bytes);
        let name_of_file = format!("{index}.r1cs");
        refuses(&place, name, &["dev", "setup", &name_of_file, "-o", "never.zkey"], 3, &name_of_file);
        let fields = format!("zkey: {}, r1cs: {}", file(chain("bn128").join("chain.zkey")), file(path));
        let manifest = circuit("c", &fields) + &job("j", "c", &file(chain("bn128").join("chain.wtns")));
        place.write("one.yaml", manifest);
        let ran = limited(&place, &["run", "-f", "one.yaml"]);
        assert_eq!(ran.code, Some(3), "{name}: {}{}", ran.stdout, ran.stderr);
        ran.says("BadKey").says("r1cs");
    }
    assert!(!place.path().join("never.zkey").exists());
    bounded("constraint systems");
}

#[test]
fn keys_proofs_and_signals_as_json() {
    let place = Place::new();
    for (name, content) in [("vk", "vk.json"), ("proof", "proof.json"), ("public", "public.json")] {
        place.write(&format!("{name}.json"), fixture(content));
    }
    let proof = String::from_utf8(fixture("proof.json")).unwrap();
    let parsed: serde_json::Value = serde_json::from_str(&proof).unwrap();
    let first = parsed["pi_a"][0].as_str().unwrap();
    let deep = "[".repeat(200_000);
    let long = format!("[\"{}\"]", "9".repeat(1_000_000));
    for (broken, content, code) in [
        ("vk", "", 3),
        ("vk", "{}", 3),
        ("vk", &deep, 3),
        ("vk", &long, 3),
        ("vk", &proof, 3),
        ("proof", "", 3),
        ("proof", "null", 3),
        ("proof", &deep, 3),
        ("proof", &long, 3),
        // On no curve; above the prime; the point at infinity; a number of a megabyte.
        ("proof", &proof.replace(first, "1"), 3),
        ("proof", &proof.replace(first, &"9".repeat(77)), 3),
        ("proof", &proof.replace(first, &"9".repeat(900_000)), 3),
        ("proof", &proof.replace(first, "-1"), 3),
        ("public", "", 3),
        ("public", "{}", 3),
        ("public", &deep, 3),
        ("public", &long, 3),
        ("public", "[1e999, 2]", 3),
        ("public", "[\"1\", \"2\"]", 1),
    ] {
        let broken_file = format!("broken-{broken}.json");
        place.write(&broken_file, content);
        let name = |of: &str| if of == broken { broken_file.clone() } else { format!("{of}.json") };
        let (key, proof, public) = (name("vk"), name("proof"), name("public"));
        let start: String = content.chars().take(60).collect();
        let arguments = ["verify", "--key", &key, "--proof", &proof, "--public", &public];
        refuses(&place, &format!("{broken}: {start}"), &arguments, code, &broken_file);
    }
    // What is no file at all.
    for path in ["/dev/zero", ".", "gone"] {
        for arguments in [
            vec!["verify", "--key", path, "--proof", "proof.json", "--public", "public.json"],
            vec!["verify", "--key", "vk.json", "--proof", path, "--public", "public.json"],
            vec!["verify", "--key", "vk.json", "--proof", "proof.json", "--public", path],
            vec!["inspect", path],
            vec!["import", path],
            vec!["export", "vk", path],
            vec!["dev", "setup", path, "-o", "never.zkey"],
        ] {
            refuses(&place, path, &arguments, 3, if path == "." { "" } else { path });
        }
    }
}
