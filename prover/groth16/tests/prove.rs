//! Proofs on the CPU device: they verify, whatever the threads, the interleaving and the circuit; wrong witnesses do not.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]

mod proving;

use proofmill_groth16::assignment::{Assignment, AssignmentError, Witness, evaluate};
use proofmill_groth16::curve::Curve;
use proofmill_groth16::device::cpu::CpuDevice;
use proofmill_groth16::device::{Blinding, Device, DeviceError};
use proofmill_groth16::key::ProvingKey;
use proofmill_groth16::proof::Proof;
use proofmill_groth16::verify::{VerifyError, verify, verify_partition};
use proofmill_groth16::verifying_key::VerifyingKey;
use proving::{Case, Circuit, chain, fixture, run, squares};

const SEED: Blinding = Blinding::SeededForTests([42; 32]);

fn device(threads: usize) -> CpuDevice {
    CpuDevice::new(threads).unwrap()
}

fn assert_proves(case: &Case) {
    let proof = case.prove(&device(2), Blinding::Random);
    assert_eq!(verify_partition(&case.circuit(), &proof, &case.publics()), Ok(true));
}

#[test]
fn chain_proofs_verify_against_snarkjs_own_verifying_key() {
    for curve in Curve::ALL {
        let case = chain(curve);
        let proof = case.prove(&device(2), Blinding::Random);
        let key = VerifyingKey::from_json(&std::fs::read(fixture(curve, "vk.json")).unwrap()).unwrap();
        assert_eq!(verify(&key, &proof, &case.publics()), Ok(true));
        let fixed = case.prove(&device(2), Blinding::ZeroForTests);
        assert_eq!(verify(&key, &fixed, &case.publics()), Ok(true));
    }
}

#[test]
fn snarkjs_own_proof_verifies_and_no_other_statement_does() {
    for curve in Curve::ALL {
        let key = VerifyingKey::from_json(&std::fs::read(fixture(curve, "vk.json")).unwrap()).unwrap();
        let proof = Proof::from_json(&std::fs::read(fixture(curve, "proof.json")).unwrap()).unwrap();
        let publics = chain(curve).publics();
        assert_eq!(verify(&key, &proof, &publics), Ok(true));
        assert_eq!(verify(&key, &proof, &[publics[1], publics[0]]), Ok(false));
        assert_eq!(verify(&key, &proof, &[]), Err(VerifyError::PublicCount { given: 0, expected: 2 }));
        let long = [publics.clone(), vec![[0; 4]]].concat();
        assert_eq!(verify(&key, &proof, &long), Err(VerifyError::PublicCount { given: 3, expected: 2 }));
        let mut raised = publics.clone();
        let mut carry = false;
        for (limb, modulus) in raised[1].iter_mut().zip(curve.scalar_modulus()) {
            let (sum, first) = limb.overflowing_add(modulus);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, first || second);
        }
        assert_eq!(verify(&key, &proof, &raised), Err(VerifyError::PublicNotReduced { index: 1 }));
    }
}

#[test]
fn a_proof_of_one_curve_is_refused_by_a_key_of_the_other() {
    let bn = chain(Curve::Bn254);
    let bls = chain(Curve::Bls12381);
    let proof = bn.prove(&device(1), SEED);
    assert!(matches!(verify_partition(&bls.circuit(), &proof, &bls.publics()), Err(VerifyError::Proof(_))));
    assert!(verify_partition(&bls.circuit(), &Proof::Simulated(1), &bls.publics()).is_err());
}

#[test]
fn two_proofs_of_one_input_differ_and_a_seed_repeats() {
    for curve in Curve::ALL {
        let case = chain(curve);
        let cpu = device(1);
        let (first, second) = (case.prove(&cpu, Blinding::Random), case.prove(&cpu, Blinding::Random));
        assert_ne!(first, second);
        assert_eq!(case.prove(&cpu, SEED), case.prove(&cpu, SEED));
        assert_ne!(case.prove(&cpu, SEED), case.prove(&cpu, Blinding::SeededForTests([43; 32])));
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_byte() {
    for curve in Curve::ALL {
        let case = chain(curve);
        let one = case.prove(&device(1), SEED);
        for threads in [2, 3, 5] {
            assert_eq!(case.prove(&device(threads), SEED), one, "{threads} threads");
        }
    }
}

#[test]
fn partitions_that_take_turns_do_not_disturb_each_other() {
    let cpu = device(2);
    let (bn, bls) = (chain(Curve::Bn254), chain(Curve::Bls12381));
    let alone = (bn.prove(&cpu, SEED), bls.prove(&cpu, SEED));
    let (mut first, mut second, mut third) = (bn.start(&cpu, SEED), bls.start(&cpu, SEED), bn.start(&cpu, SEED));
    while first.next_phase().is_some() || second.next_phase().is_some() {
        for start in [&mut first, &mut second] {
            if start.next_phase().is_some() {
                start.step().unwrap();
            }
        }
        if third.next_phase().is_some() {
            third.step().unwrap();
        }
    }
    assert_eq!(third.next_phase(), None);
    assert_eq!(bn.finish(&cpu, first).unwrap(), alone.0);
    assert_eq!(bls.finish(&cpu, second).unwrap(), alone.1);
    assert_eq!(bn.finish(&cpu, third).unwrap(), alone.0);
}

#[test]
fn a_small_proof_is_few_steps() {
    for curve in Curve::ALL {
        let mut start = chain(curve).start(&device(2), SEED);
        assert_eq!(run(&mut *start), 3);
    }
}

#[test]
fn a_tampered_witness_never_verifies() {
    for curve in Curve::ALL {
        let case = chain(curve);
        let wires = case.witness.values.len();
        for wire in [1, 2, 3, wires / 2, wires - 1] {
            let mut witness = case.witness.clone();
            witness.values[wire][0] ^= 1;
            let assignment = Assignment::Groth16(case.evaluate(witness));
            let publics = assignment.public_signals(&case.circuit());
            let cpu = device(2);
            let mut start = cpu.prepare(&case.circuit(), assignment, Blinding::Random).unwrap();
            run(&mut *start);
            let proof = case.finish(&cpu, start).unwrap();
            assert_eq!(verify_partition(&case.circuit(), &proof, &publics), Ok(false), "{curve} wire {wire}");
        }
    }
}

#[test]
fn witnesses_of_other_circuits_are_refused() {
    let case = chain(Curve::Bn254);
    let ProvingKey::Bn254(key) = &*case.key else { panic!("a BN254 key") };
    let refused = |values| evaluate(&key.view(), Witness { values }).map(|_| ()).unwrap_err();
    let good = &case.witness.values;
    assert_eq!(refused(good[1..].to_vec()), AssignmentError::Length { given: 3002, expected: 3003 });
    assert_eq!(refused(Vec::new()), AssignmentError::Length { given: 0, expected: 3003 });
    let with = |wire: usize, value| {
        let mut values = good.clone();
        values[wire] = value;
        values
    };
    assert_eq!(refused(with(0, [2, 0, 0, 0])), AssignmentError::NotOne);
    assert_eq!(refused(with(9, Curve::Bn254.scalar_modulus())), AssignmentError::NotReduced { wire: 9 });
    assert_eq!(refused(with(9, [u64::MAX; 4])), AssignmentError::NotReduced { wire: 9 });
}

#[test]
fn an_assignment_of_another_circuit_is_a_mismatch_before_any_work() {
    let (bn, bls) = (chain(Curve::Bn254), chain(Curve::Bls12381));
    let cpu = device(1);
    let (small, values) = squares(Curve::Bn254, 70, 3, 5);
    let other = small.case(Curve::Bn254, values).assignment();
    let mismatch = |result: Result<_, DeviceError>| matches!(result.err(), Some(DeviceError::Mismatch { .. }));
    assert!(mismatch(cpu.prepare(&bn.circuit(), Assignment::Groth16(other), SEED).map(|_| ())));
    assert!(mismatch(cpu.prepare(&bn.circuit(), Assignment::Simulated { seed: 1 }, SEED).map(|_| ())));
    let mut start = bn.start(&cpu, SEED);
    run(&mut *start);
    assert!(mismatch(cpu.prove_finish(&bls.circuit(), start.into_output().unwrap()).map(|_| ())));
}

#[test]
fn output_before_the_last_step_is_refused() {
    let cpu = device(1);
    let mut start = chain(Curve::Bn254).start(&cpu, SEED);
    start.step().unwrap();
    assert!(start.into_output().is_err());
}

#[test]
fn dev_keys_prove_on_domains_of_all_sizes() {
    for curve in Curve::ALL {
        for rounds in [1, 2, 3, 5, 13, 30, 61, 62, 126, 1000] {
            let (circuit, values) = squares(curve, rounds, 3, 5);
            assert_proves(&circuit.case(curve, values));
        }
    }
}

#[test]
fn no_public_signals() {
    for curve in Curve::ALL {
        let (mut circuit, values) = squares(curve, 100, 3, 5);
        (circuit.outputs, circuit.inputs) = (0, 0);
        let case = circuit.case(curve, values);
        assert_eq!(case.publics(), Vec::<[u64; 4]>::new());
        assert_proves(&case);
    }
}

#[test]
fn no_constraints() {
    for curve in Curve::ALL {
        let circuit = Circuit { wires: 4, outputs: 1, inputs: 1, rows: Vec::new() };
        assert_proves(&circuit.case(curve, vec![[1, 0, 0, 0], [5, 0, 0, 0], [0; 4], [9, 0, 0, 0]]));
    }
}

#[test]
fn witnesses_of_zeros_and_ones_alone() {
    for curve in Curve::ALL {
        // x squared is x, 90 times: 0 and 1 satisfy it.
        for bit in [0, 1] {
            let (circuit, values) = squares(curve, 90, bit, 0);
            assert!(values.iter().all(|value| value[0] <= 1 && value[1..] == [0; 3]));
            assert_proves(&circuit.case(curve, values));
        }
    }
}
