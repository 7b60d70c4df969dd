//! Peers of the prover, measured by the same means: wall and CPU seconds of loading a key and of proving with it.
//!
//! `peers ark KEY.zkey WITNESS.wtns REPEAT` prints one JSON object.

use std::fs::File;
use std::io::BufReader;
use std::time::Instant;

use ark_bn254::{Bn254, Fr};
use ark_circom::{CircomReduction, read_zkey};
use ark_ff::PrimeField;
use ark_groth16::Groth16;
use ark_std::UniformRand;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [peer, zkey, wtns, repeat] = arguments.as_slice() else {
        eprintln!("usage: peers ark KEY.zkey WITNESS.wtns REPEAT");
        std::process::exit(2);
    };
    assert_eq!(peer, "ark", "the only peer built in");
    let repeat: usize = repeat.parse().expect("REPEAT is a number");
    let (key, load) = timed(|| read_zkey(&mut BufReader::new(File::open(zkey).expect("the zkey"))).expect("a zkey"));
    let (pk, index) = key;
    let witness = read_wtns(wtns);
    let mut rng = ark_std::test_rng();
    let mut proves: Vec<Cost> = (0..repeat)
        .map(|_| {
            let (r, s) = (Fr::rand(&mut rng), Fr::rand(&mut rng));
            let (proof, cost) = timed(|| {
                Groth16::<Bn254, CircomReduction>::create_proof_with_reduction_and_matrices(
                    &pk,
                    r,
                    s,
                    &[index.a.clone(), index.b.clone()],
                    index.num_instance_variables,
                    index.num_constraints,
                    &witness,
                )
                .expect("a proof")
            });
            let publics = &witness[1..index.num_instance_variables];
            let vk = ark_groth16::prepare_verifying_key(&pk.vk);
            assert!(Groth16::<Bn254>::verify_proof(&vk, &proof, publics).expect("verified"), "an invalid proof");
            cost
        })
        .collect();
    proves.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    let prove = &proves[proves.len() / 2];
    println!(
        "{{\"peer\":\"ark-circom 0.6\",\"loadWall\":{:.3},\"loadCpu\":{:.3},\"proveWall\":{:.3},\"proveCpu\":{:.3}}}",
        load.wall, load.cpu, prove.wall, prove.cpu
    );
}

struct Cost {
    wall: f64,
    cpu: f64,
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Cost) {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    let result = work();
    (result, Cost { wall: wall.elapsed().as_secs_f64(), cpu: cpu_seconds() - cpu })
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    // SAFETY: getrusage fills the zeroed struct.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// The values of a well-formed .wtns file: 4 + 4 + 4 bytes, section 1 (12 + 40), section 2 (12 + values).
fn read_wtns(path: &str) -> Vec<Fr> {
    let bytes = std::fs::read(path).expect("the witness");
    bytes[12 + 52 + 12..].chunks_exact(32).map(Fr::from_le_bytes_mod_order).collect()
}
