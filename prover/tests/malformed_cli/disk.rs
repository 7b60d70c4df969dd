//! Disks without room: a small file system in a private mount namespace.

use std::process::{Command, Stdio};

use crate::manifest::{circuit, file, job};
use crate::place::{Place, Ran, chain, finish};

/// Runs a shell script with a file system of 1 MiB at `disk` in the place and the binary as `$prover`; `None` where this
/// machine does not let a test mount one.
fn on_small_disk(test: &str, place: &Place, script: &str) -> Option<Ran> {
    let plain = place.command(&[]);
    std::fs::create_dir(place.path().join("disk")).unwrap();
    let script = format!("mount -t tmpfs -o size=1m none disk && echo mounted && {script}");
    let mut command = Command::new("unshare");
    command
        .args(["-rm", "sh", "-c", &script])
        .current_dir(place.path())
        .env("prover", plain.get_program())
        .env("XDG_CACHE_HOME", place.path().join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ran = finish(command);
    if ran.stdout.starts_with("mounted") {
        return Some(ran);
    }
    println!("SKIPPED {test}: no private mounts on this machine ({})", ran.stderr.trim());
    None
}

#[test]
fn no_room_for_a_key() {
    let place = Place::new();
    let zkey = chain("bn128").join("chain.zkey");
    let script = format!(
        "{{ $prover import --key-cache disk/keys {}; code=$?; echo; echo left: $(find disk -type f -size +0 | wc -l); exit $code; }}",
        zkey.display()
    );
    let Some(ran) = on_small_disk("no_room_for_a_key", &place, &script) else { return };
    ran.expect(5).says("the disk is full").says("left: 0");
    // `--out` beside the full disk's other files.
    let place = Place::new();
    let script = format!(
        "{{ $prover import --out disk/chain.key {}; code=$?; echo; echo left: $(find disk -type f | wc -l); exit $code; }}",
        zkey.display()
    );
    let Some(ran) = on_small_disk("no_room_for_a_key", &place, &script) else { return };
    ran.expect(5).says("disk").says("left: 0");
}

#[test]
fn no_room_for_proofs() {
    let place = Place::new();
    let manifest = circuit("c", &format!("zkey: {}", file(chain("bn128").join("chain.zkey"))))
        + &job("j", "c", &file(chain("bn128").join("chain.wtns")));
    place.write("job.yaml", manifest);
    // The folder is there; every block is taken.
    let script = "{ mkdir -p disk/proofs/j; cat /dev/zero >disk/full 2>full.txt; $prover run -f job.yaml --out disk/proofs; \
                  code=$?; echo; echo left: $(find disk/proofs -type f | wc -l); exit $code; }";
    let Some(ran) = on_small_disk("no_room_for_proofs", &place, script) else { return };
    ran.expect(5).says("disk/proofs/j/").says("--out").says("left: 0").says("1 of 1 jobs failed");
}
