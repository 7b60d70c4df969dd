//! Circles of waiting that random schedules once found. Each of these must simply end.

use std::time::Duration;

use proofmill_groth16::device::{Phase, WorkingSet};

use super::sim::{KeyScript, MIB, Script, Sim, mk_circuit, mk_id, mk_step, ms};
use crate::engine::Config;
use crate::job::{PartitionState, Priority};

fn inline() -> Script {
    Script { fetch: Duration::ZERO, ..Script::default() }
}

/// What was put back holds device memory for which the first in line waits.
#[test]
fn device_memory_and_a_partition_that_was_put_back() {
    let config = Config { memory_budget: 800 * MIB, synthesis_workers: 3, ..Config::default() };
    let mut sim = Sim::new(config, &[Some(12 * MIB)]);
    let set = WorkingSet { evaluations: 0, host: 0, device: 4 * MIB };
    sim.keys.insert("half".to_owned(), KeyScript { set, ..KeyScript::default() });
    let set = WorkingSet { evaluations: 0, host: 0, device: 12 * MIB };
    sim.keys.insert("whole".to_owned(), KeyScript { set, ..KeyScript::default() });
    let steps: Vec<_> = (0..5).map(|_| mk_step(Phase::MsmG1, 10)).collect();
    // One steps, one is prepared; the second is put back for the Critical one. Then `whole` is first in line.
    for job in ["a", "b"] {
        sim.submit(job, "half", Priority::Normal, Script { steps: steps.clone(), ..inline() }).unwrap();
    }
    sim.run_until(ms(20));
    sim.submit("whole", "whole", Priority::High, inline()).unwrap();
    sim.run_until(ms(30));
    sim.submit("critical", "half", Priority::Critical, Script { steps, ..inline() }).unwrap();
    sim.run_out();
    assert!(sim.outcomes.values().flatten().all(Result::is_ok));
    let states = |job: &str| -> Vec<PartitionState> {
        sim.events.iter().filter(|event| event.id == mk_id(job)).map(|event| event.state).collect()
    };
    let put_back = [PartitionState::Proving, PartitionState::DeviceQueue];
    assert!(["a", "b"].iter().any(|job| states(job).windows(2).any(|pair| pair == put_back)), "nothing was put back");
}

/// A Critical partition waits for memory for its input, which a Normal one holds, which waits for its key, for which
/// the Critical one's key would have to go.
#[test]
fn memory_of_inputs_and_memory_of_keys() {
    let mut sim = Sim::new(Config { memory_budget: 80 * MIB, ..Config::default() }, &[None]);
    for circuit in ["x", "y"] {
        sim.keys
            .insert(circuit.to_owned(), KeyScript { resident: 40 * MIB, estimated: 40 * MIB, ..KeyScript::default() });
    }
    sim.act(|core, now| core.preload(now, mk_circuit("x")));
    sim.run_until(ms(10));
    sim.submit("normal", "y", Priority::Normal, Script { input_bytes: 19 * MIB / 2, ..inline() }).unwrap();
    sim.submit("critical", "x", Priority::Critical, Script { fetch: ms(5), ..Script::default() }).unwrap();
    sim.run_out();
    assert!(sim.outcomes.values().flatten().all(Result::is_ok));
    let ended = |job: &str| {
        let id = mk_id(job);
        sim.events.iter().find(|event| event.id == id && event.state == PartitionState::Succeeded).unwrap().at
    };
    assert!(ended("normal") < ended("critical"));
}
