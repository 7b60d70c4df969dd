//! Where a proof's time goes, on one thread and on two: `cargo bench -p proofmill-groth16 [-- KEY.zkey WITNESS.wtns]...`
//! Without files: the chain circuit of the fixtures, both curves. CPU seconds are the process's, user and system.
#![allow(missing_docs)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use proofmill_groth16::assignment::{Assignment, evaluate_key};
use proofmill_groth16::canary::Canary;
use proofmill_groth16::curve::Curve;
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::device::{Blinding, Device, Phase};
use proofmill_groth16::format::source::FileSource;
use proofmill_groth16::format::wtns::WitnessFile;
use proofmill_groth16::key::import::{ImportControl, import_zkey};
use proofmill_groth16::key::{CircuitKey, ProvingKey};
use proofmill_groth16::verify::Verifier;

/// Proofs per number of threads; the best one counts.
const REPEATS: usize = 3;

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).filter(|arg| arg != "--bench").map(PathBuf::from).collect();
    let mut canary = None;
    let made = Measured::of(|| {
        canary = Some(Canary::new()?);
        Ok(())
    })?;
    if let Some(canary) = canary {
        let device = CpuDevice::new(2)?;
        let proved = Measured::of(|| Ok(canary.prove_and_verify(&device)?))?;
        println!("canary: made in {made}; proved and verified in {proved}");
    }
    if files.is_empty() {
        let root = Path::new("../../tests/fixtures/circom/chain");
        for curve in Curve::ALL {
            let folder = root.join(curve.snarkjs_name());
            circuit(&folder.join("chain.zkey"), &folder.join("chain.wtns"))?;
        }
    }
    for pair in files.chunks(2) {
        let [zkey, wtns] = pair else { return Err("give files in pairs: KEY.zkey WITNESS.wtns".into()) };
        circuit(zkey, wtns)?;
    }
    Ok(())
}

fn circuit(zkey: &Path, wtns: &Path) -> Result<(), Box<dyn Error>> {
    let mut file = tempfile::NamedTempFile::new()?;
    let import =
        Measured::of(|| Ok(import_zkey(&FileSource::open(zkey)?, file.as_file_mut(), &ImportControl::QUIET)?))?;
    let key = Arc::new(ProvingKey::open(file.path())?);
    println!("\n{} ({}, 2^{})", zkey.display(), key.info().curve, key.info().domain_log);
    println!("  import: {import}; imported key {} bytes", key.info().bytes);
    let witness = WitnessFile::read(&fs::read(wtns)?[..])?.witness;
    let verifier = Verifier::of_key(&key);
    let circuit = CircuitKey::Groth16(Arc::clone(&key));
    // From here on the peak is the proofs' own, the mapped key's touched pages included.
    fs::write("/proc/self/clear_refs", "5")?;
    let mut walls = Vec::new();
    for threads in [1, 2] {
        let device = CpuDevice::new(threads)?;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let mut best: Option<(Measured, String)> = None;
        for _ in 0..REPEATS {
            let mut phases: Vec<(&str, Duration)> = Vec::new();
            let (mut longest, mut steps) = (Duration::ZERO, 0);
            let witness = witness.clone();
            let publics = witness.values[1..=key.info().public as usize].to_vec();
            let total = Measured::of(|| {
                let mut begin = Instant::now();
                let mut lap = |name| {
                    let took = begin.elapsed();
                    begin = Instant::now();
                    match phases.last_mut() {
                        Some((last, sum)) if *last == name => *sum += took,
                        _ => phases.push((name, took)),
                    }
                    took
                };
                let assignment = pool.install(|| evaluate_key(&key, witness))?;
                lap("rows");
                let mut start = device.prepare(&circuit, Assignment::Groth16(assignment), Blinding::Random)?;
                lap("prepare");
                while let Some(phase) = start.next_phase() {
                    start.step()?;
                    steps += 1;
                    longest = longest.max(lap(match phase {
                        Phase::Ntt => "ntt",
                        Phase::MsmG1 => "g1",
                        Phase::MsmG2 => "g2",
                        Phase::OtherKernel => "other",
                    }));
                }
                let proof = device.prove_finish(&circuit, start.into_output()?)?;
                lap("finish");
                let verified = verifier.verify(&proof, &publics)?;
                lap("verify");
                if verified { Ok(()) } else { Err("the proof does not verify".into()) }
            })?;
            let text = phases.iter().map(|(name, took)| format!("{name} {took:.1?}")).collect::<Vec<_>>().join(", ");
            if best.as_ref().is_none_or(|(best, _)| total.wall < best.wall) {
                best = Some((total, format!("{steps} steps, longest {longest:.1?}: {text}")));
            }
        }
        if let Some((total, text)) = best {
            println!("  {threads} thread(s): {total}; {text}");
            walls.push(total.wall);
        }
    }
    if let [one, two] = walls[..] {
        println!("  two threads: {:.2} times as fast as one", one.div_duration_f64(two));
    }
    let set = CpuDevice::new(2)?.working_set(&circuit);
    println!(
        "  working set on 2 threads: {} + {} bytes; peak resident while proving {} KiB",
        set.evaluations,
        set.host,
        peak_resident()?
    );
    Ok(())
}

/// Wall and CPU time.
#[derive(Clone, Copy)]
struct Measured {
    wall: Duration,
    cpu: Duration,
}

impl Measured {
    fn of<R>(work: impl FnOnce() -> Result<R, Box<dyn Error>>) -> Result<Self, Box<dyn Error>> {
        let (begin, cpu) = (Instant::now(), cpu_time());
        work()?;
        Ok(Self { wall: begin.elapsed(), cpu: cpu_time() - cpu })
    }
}

impl std::fmt::Display for Measured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1?} wall, {:.3} CPU-s", self.wall, self.cpu.as_secs_f64())
    }
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid clock and a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn peak_resident() -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).ok_or("no VmHWM")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse()?)
}
