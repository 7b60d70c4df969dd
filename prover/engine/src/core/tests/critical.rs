//! A Critical partition overtakes a saturating batch within two steps.

use std::time::Duration;

use proofmill_groth16::device::Phase;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::sim::{MIB, Script, Sim, mk_step, ms};
use crate::engine::Config;
use crate::job::{PartitionState, Priority};

const SEEDS: u64 = 2_000;

fn mk_script(random: &mut StdRng) -> Script {
    let steps = (0..random.random_range(1..8)).map(|_| mk_step(Phase::MsmG1, random.random_range(1..250))).collect();
    Script {
        fetch: Duration::ZERO,
        synthesis: ms(random.random_range(0..300)),
        prepare: ms(random.random_range(0..100)),
        steps,
        output: ms(random.random_range(0..20)),
        finish: ms(random.random_range(0..50)),
        ..Script::default()
    }
}

#[test]
fn it_waits_for_at_most_two_steps_of_others() {
    let mut waited = [0_u32; 3];
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let config = Config {
            memory_budget: 100 * MIB,
            reserve_critical: 10 * MIB,
            synthesis_workers: random.random_range(1..4),
            finalizers: random.random_range(1..3),
            ..Config::default()
        };
        let memory = random.random_bool(0.5).then(|| random.random_range(2..6) * MIB);
        let mut sim = Sim::new(config, &[memory]);
        for n in 0..12 {
            let script = mk_script(&mut random);
            sim.submit(&format!("batch-{n}"), "chain", Priority::Normal, script).unwrap();
        }
        sim.run_until(ms(random.random_range(0..2_000)));
        let script = mk_script(&mut random);
        let synthesis = script.synthesis;
        let submitted = sim.now;
        sim.submit("critical", "chain", Priority::Critical, script).unwrap();
        sim.run_out();

        // Nobody delays its synthesis but the load of the key.
        let at = |state| sim.events.iter().find(|e| e.id.job == "critical" && e.state == state).map(|event| event.at);
        let queued = at(PartitionState::DeviceQueue).unwrap();
        assert!(queued <= submitted.max(ms(1)) + synthesis, "seed {seed}");
        let ticket = 12;
        let prepared = sim.prepared.iter().find(|(_, t)| *t == ticket).unwrap().0;
        let own = sim.steps.iter().find(|(_, _, t)| *t == ticket).unwrap().0;
        // It waits for a worker until its preparation begins, then for the lease until its first step. A step of the
        // batch that runs meanwhile counts if it ends while it waits.
        let proving = at(PartitionState::Proving).unwrap();
        let ends = |from: Duration, to: Duration| {
            let mut count = 0;
            for pair in sim.steps.windows(2) {
                // The next step begins when or after this one ends: with the lease saturated, at that instant.
                count += u32::from(pair[0].2 != ticket && pair[0].0 < to && pair[1].0 > from && pair[1].0 <= to);
            }
            count
        };
        let count = ends(queued, proving) + ends(prepared, own);
        assert!(count <= 2, "seed {seed}: it waited for {count} steps");
        waited[count as usize] += 1;
    }
    assert!(waited[1] + waited[2] > SEEDS as u32 / 4, "the batch does not saturate the device: {waited:?}");
}
