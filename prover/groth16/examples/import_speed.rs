//! Times an import, openings, and the digests' check. Arguments: a zkey, a folder for the cache.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use proofmill_groth16::key::cache::KeyCache;
use proofmill_groth16::key::import::ImportControl;

fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let cache = KeyCache::open(arguments[2].as_ref(), 1 << 40).unwrap();
    for name in ["first", "second"] {
        let (start, used) = (Instant::now(), cpu());
        let key = cache.import(arguments[1].as_ref(), None, &ImportControl::QUIET).unwrap();
        println!("{name}: {:?}, {:.2} CPU-s, {} bytes", start.elapsed(), cpu() - used, key.info().bytes);
        let digest = key.info().source_digest;
        drop(key);
        let start = Instant::now();
        let key = cache.get(&digest).unwrap().unwrap();
        println!("get: {:?}", start.elapsed());
        let start = Instant::now();
        key.verify_digests().unwrap();
        println!("digests: {:?}", start.elapsed());
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap());
}
