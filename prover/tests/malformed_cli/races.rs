//! Processes that share a key cache, are killed, or have their files replaced.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::manifest::{circuit, file, job};
use crate::place::{Place, chain, finish, kill, ran};

fn entries(place: &Place, folder: &str) -> Vec<String> {
    let folder = place.path().join("cache/proofmill/keys").join(folder);
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn zkey() -> String {
    chain("bn128").join("chain.zkey").to_str().unwrap().to_owned()
}

/// Another key of the same circuit.
fn other_key(place: &Place) {
    let xz = chain("bn128").join("chain.r1cs.xz");
    place.write("chain.r1cs", Command::new("xz").arg("-dc").arg(xz).output().expect("xz is installed").stdout);
    place.run(&["dev", "setup", "chain.r1cs", "-o", "other.zkey"]).expect(0);
}

#[test]
fn several_imports_at_once() {
    let place = Place::new();
    let children: Vec<_> = (0..4).map(|_| place.command(&["import", "--json", &zkey()]).spawn().unwrap()).collect();
    for child in children {
        ran(child.wait_with_output().unwrap()).expect(0).says("\"constraints\":3000");
    }
    assert_eq!(entries(&place, "keys").len(), 1);
    assert_eq!(entries(&place, "tmp"), [""; 0]);
}

#[test]
fn a_killed_import_leaves_nothing() {
    let place = Place::new();
    other_key(&place);
    let mut killed = 0;
    for round in 0..12 {
        // A fresh cache each time, so that there is always an import to kill.
        let folder = format!("cache-{round}");
        let arguments = ["import", "--key-cache", folder.as_str(), &zkey()];
        let child = place.command(&arguments).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(round * 8));
        kill(child.id(), "KILL");
        let ended = child.wait_with_output().unwrap().status.code();
        killed += usize::from(ended.is_none());
        // The next process that opens the cache, for another key, cleans up; then the first key comes in as if new.
        place.run(&["import", "--key-cache", &folder, "other.zkey"]).expect(0);
        let files = |name: &str| std::fs::read_dir(place.path().join(&folder).join(name)).unwrap().count();
        assert_eq!(files("tmp"), 0, "round {round}");
        place.run(&arguments).expect(0);
        assert_eq!((files("tmp"), files("keys")), (0, 2), "round {round}");
    }
    assert!(killed >= 3, "only {killed} imports were killed in time");
}

/// A manifest with one key and so many jobs.
fn manifest(place: &Place, jobs: usize) {
    let mut text = circuit("c", &format!("zkey: {}", file(place.path().join("key.zkey"))));
    for index in 0..jobs {
        text += &job(&format!("j{index}"), "c", &file(chain("bn128").join("chain.wtns")));
    }
    place.write("jobs.yaml", text);
}

fn valid(place: &Place, key: &Path, job: &str) -> bool {
    let path = |name: &str| format!("proofs/{job}/{name}");
    let (proof, public) = (path("proof.json"), path("public.json"));
    let arguments = ["verify", "--key", key.to_str().unwrap(), "--proof", &proof, "--public", &public];
    match finish(place.command(&arguments)).code {
        Some(0) => true,
        Some(1) => false,
        code => panic!("verify ended with {code:?}"),
    }
}

#[test]
fn a_key_replaced_between_two_runs_is_the_new_key() {
    let place = Place::new();
    other_key(&place);
    let (first, second) = (chain("bn128").join("chain.zkey"), place.path().join("other.zkey"));
    manifest(&place, 1);
    for (key, not) in [(&first, &second), (&second, &first), (&first, &second)] {
        std::fs::copy(key, place.path().join("key.zkey")).unwrap();
        place.run(&["run", "-f", "jobs.yaml"]).expect(0);
        assert!(valid(&place, key, "j0") && !valid(&place, not, "j0"));
    }
}

#[test]
fn a_key_overwritten_during_a_run_does_no_harm() {
    let place = Place::new();
    std::fs::copy(zkey(), place.path().join("key.zkey")).unwrap();
    manifest(&place, 12);
    let mut child = place.command(&["run", "--json", "-f", "jobs.yaml"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let succeeded = |line: &String| line.contains("\"succeeded\":true");
    assert!(lines.any(|line| succeeded(&line)), "no job succeeded");
    // In place, by what is shorter: a mapping of the file itself would die of SIGBUS.
    place.write("key.zkey", b"zkey no more");
    assert_eq!(lines.filter(succeeded).count(), 11);
    ran(child.wait_with_output().unwrap()).expect(0);
    for index in 0..12 {
        assert!(valid(&place, Path::new(&zkey()), &format!("j{index}")));
    }
    // The next run meets what lies there now.
    place.run(&["run", "-f", "jobs.yaml"]).expect(3).says("BadKey").says("12 of 12 jobs failed");
}
