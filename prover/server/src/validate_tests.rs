use super::*;

fn source(url: &str) -> v1::Source {
    v1::Source { url: url.into(), sha256: vec![] }
}

fn groth16() -> v1::Groth16Circuit {
    v1::Groth16Circuit { zkey: Some(source("file:a.zkey")), ..Default::default() }
}

fn good() -> v1::SubmitRequest {
    let kind = Some(v1::circuit::Kind::Groth16(groth16()));
    v1::SubmitRequest {
        epoch: 3,
        id: Some(v1::PartitionId { job: "0b6c-1".into(), partition: 2, attempt: 1 }),
        digest: vec![9; 32],
        priority: v1::Priority::Critical.into(),
        sequence: 8,
        deadline_ms: Some(1500),
        circuit: Some(v1::Circuit { name: "semaphore-20".into(), kind }),
        input: Some(v1::Input { source: Some(v1::input::Source::Inline(b"{}".to_vec())) }),
    }
}

#[test]
fn a_good_one_keeps_every_value() {
    let mut request = good();
    let part = |url: &str, fill: u8| Some(v1::Source { url: url.into(), sha256: vec![fill; 32] });
    request.circuit.as_mut().unwrap().kind = Some(v1::circuit::Kind::Groth16(v1::Groth16Circuit {
        zkey: part("file:k", 1),
        witness_generator: part("http://h/w", 2),
        r1cs: part("s3://b/r", 3),
        symbols: part("gs://b/s", 4),
        verifying_key: part("az://b/v", 5),
    }));
    let submission = submission(request).unwrap();
    assert_eq!(submission.id.to_string(), "0b6c-1/2/1");
    assert_eq!((submission.epoch, submission.sequence, submission.digest), (3, 8, [9; 32]));
    assert_eq!((submission.priority, submission.deadline), (Priority::Critical, Some(Duration::from_millis(1500))));
    assert_eq!(submission.circuit.name, "semaphore-20");
    let part = |url: &str, fill: u8| Source { url: url.into(), sha256: Some([fill; 32]) };
    assert_eq!(
        submission.circuit.kind,
        CircuitKind::Groth16 {
            zkey: part("file:k", 1),
            witness_generator: Some(part("http://h/w", 2)),
            r1cs: Some(part("s3://b/r", 3)),
            symbols: Some(part("gs://b/s", 4)),
            verifying_key: Some(part("az://b/v", 5)),
        }
    );
    assert!(matches!(submission.input, Input::Inline(bytes) if &*bytes == b"{}"));
}

#[test]
fn each_duration_of_a_simulated_circuit_finds_its_place() {
    let mut request = good();
    let script = v1::SimulatedCircuit {
        partitions: 10,
        key_bytes: 1,
        working_set: 2,
        key_load_us: 3,
        synthesis_us: 4,
        ntt_us: 5,
        msm_g1_us: 6,
        msm_g2_us: 7,
        transfer_us: 8,
        finish_us: 9,
    };
    request.circuit.as_mut().unwrap().kind = Some(v1::circuit::Kind::Simulated(script));
    let CircuitKind::Simulated(circuit) = submission(request).unwrap().circuit.kind else { panic!() };
    let us = Duration::from_micros;
    assert_eq!((circuit.partitions, circuit.key_bytes, circuit.working_set), (10, 1, 2));
    assert_eq!((circuit.key_load, circuit.synthesis, circuit.ntt), (us(3), us(4), us(5)));
    assert_eq!((circuit.msm_g1, circuit.msm_g2, circuit.transfer, circuit.finish), (us(6), us(7), us(8), us(9)));
}

/// Each mutation of a good request, with the path that its refusal must begin with.
#[test]
fn every_bad_field_is_named() {
    type Mutation = (&'static str, fn(&mut v1::SubmitRequest));
    fn kind(request: &mut v1::SubmitRequest, kind: v1::circuit::Kind) {
        request.circuit.as_mut().unwrap().kind = Some(kind);
    }
    fn zkey(request: &mut v1::SubmitRequest, zkey: v1::Source) {
        kind(request, v1::circuit::Kind::Groth16(v1::Groth16Circuit { zkey: Some(zkey), ..Default::default() }));
    }
    fn job(request: &mut v1::SubmitRequest, job: &str) {
        request.id.as_mut().unwrap().job = job.into();
    }
    fn name(request: &mut v1::SubmitRequest, name: &str) {
        request.circuit.as_mut().unwrap().name = name.into();
    }
    fn inline(request: &mut v1::SubmitRequest, bytes: Vec<u8>) {
        request.input = Some(v1::Input { source: Some(v1::input::Source::Inline(bytes)) });
    }
    fn simulated(request: &mut v1::SubmitRequest, change: fn(&mut v1::SimulatedCircuit)) {
        let mut script = v1::SimulatedCircuit { partitions: 1, ..Default::default() };
        change(&mut script);
        kind(request, v1::circuit::Kind::Simulated(script));
    }
    let mutations: &[Mutation] = &[
        ("id", |r| r.id = None),
        ("id.job", |r| job(r, "")),
        ("id.job", |r| job(r, &"x".repeat(129))),
        ("id.job", |r| job(r, "a b")),
        ("id.job", |r| job(r, "a\n")),
        ("id.job", |r| job(r, "ä")),
        ("id.job", |r| job(r, "../x")),
        ("id.partition", |r| r.id.as_mut().unwrap().partition = 65536),
        ("digest", |r| r.digest.clear()),
        ("digest", |r| r.digest.push(0)),
        ("priority", |r| r.priority = 5),
        ("priority", |r| r.priority = -1),
        ("deadline_ms", |r| r.deadline_ms = Some(0)),
        ("deadline_ms", |r| r.deadline_ms = Some(u64::MAX)),
        ("circuit", |r| r.circuit = None),
        ("circuit", |r| r.circuit.as_mut().unwrap().kind = None),
        ("circuit.name", |r| name(r, "")),
        ("circuit.name", |r| name(r, "Semaphore")),
        ("circuit.name", |r| name(r, "-a")),
        ("circuit.name", |r| name(r, "a..b")),
        ("circuit.name", |r| name(r, "a\"} 1\n")),
        ("circuit.name", |r| name(r, &"a".repeat(254))),
        ("circuit.groth16.zkey", |r| kind(r, v1::circuit::Kind::Groth16(Default::default()))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source(""))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source("/etc/passwd"))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source("ftp://a/b"))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source("file:"))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source("file:a b"))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source("http://a/\r\nx"))),
        ("circuit.groth16.zkey.url", |r| zkey(r, source(&format!("file:{}", "a".repeat(2048))))),
        ("circuit.groth16.zkey.sha256", |r| zkey(r, v1::Source { sha256: vec![0; 31], ..source("file:a") })),
        ("circuit.groth16.r1cs.url", |r| {
            kind(r, v1::circuit::Kind::Groth16(v1::Groth16Circuit { r1cs: Some(source("x")), ..groth16() }));
        }),
        ("circuit.groth16.symbols.url", |r| {
            kind(r, v1::circuit::Kind::Groth16(v1::Groth16Circuit { symbols: Some(source("x")), ..groth16() }));
        }),
        ("circuit.groth16.verifying_key.url", |r| {
            kind(r, v1::circuit::Kind::Groth16(v1::Groth16Circuit { verifying_key: Some(source("x")), ..groth16() }));
        }),
        ("circuit.groth16.witness_generator.url", |r| {
            kind(
                r,
                v1::circuit::Kind::Groth16(v1::Groth16Circuit { witness_generator: Some(source("x")), ..groth16() }),
            );
        }),
        ("circuit.simulated.partitions", |r| simulated(r, |s| s.partitions = 0)),
        ("circuit.simulated.partitions", |r| simulated(r, |s| s.partitions = 129)),
        ("circuit.simulated.key_load_us", |r| simulated(r, |s| s.key_load_us = u64::MAX)),
        ("circuit.simulated.synthesis_us", |r| simulated(r, |s| s.synthesis_us = u64::MAX)),
        ("circuit.simulated.ntt_us", |r| simulated(r, |s| s.ntt_us = u64::MAX)),
        ("circuit.simulated.msm_g1_us", |r| simulated(r, |s| s.msm_g1_us = u64::MAX)),
        ("circuit.simulated.msm_g2_us", |r| simulated(r, |s| s.msm_g2_us = u64::MAX)),
        ("circuit.simulated.transfer_us", |r| simulated(r, |s| s.transfer_us = u64::MAX)),
        ("circuit.simulated.finish_us", |r| simulated(r, |s| s.finish_us = 3_600_000_001)),
        ("input", |r| r.input = None),
        ("input", |r| r.input = Some(v1::Input { source: None })),
        ("input.inline", |r| inline(r, vec![])),
        ("input.inline", |r| inline(r, vec![b'7'; (1 << 20) + 1])),
        ("input.fetch.url", |r| r.input = Some(v1::Input { source: Some(v1::input::Source::Fetch(source("x"))) })),
        ("input.fetch.sha256", |r| {
            let fetch = v1::Source { sha256: vec![1], ..source("file:x") };
            r.input = Some(v1::Input { source: Some(v1::input::Source::Fetch(fetch)) });
        }),
    ];
    assert!(submission(good()).is_ok());
    for (number, (path, mutate)) in mutations.iter().enumerate() {
        let mut request = good();
        mutate(&mut request);
        let error = submission(request).map(|_| ()).unwrap_err();
        assert_eq!(&error.path, path, "mutation {number}: {error}");
        assert!(error.to_string().starts_with(&format!("{path}: ")) && error.problem.len() > 5, "{error}");
        assert!(!error.to_string().contains("passwd") && !error.to_string().contains("777"), "shows a value: {error}");
    }
}

#[test]
fn names_of_circuits_are_those_of_kubernetes() {
    for fine in ["a", "a1", "1", "semaphore-20", "a.b", &"a".repeat(253)] {
        assert_eq!(circuit_name(fine, "x"), Ok(()), "{fine}");
    }
    for bad in ["", ".", "a.", ".a", "a-", "-", "A", "a_b", "a/b", "a b", "é"] {
        assert!(circuit_name(bad, "x").is_err(), "{bad}");
    }
}

#[test]
fn times_are_bounded() {
    assert_eq!(interval(0, "x"), Ok(Duration::from_secs(1)));
    assert_eq!(interval(100, "x"), Ok(Duration::from_millis(100)));
    assert!(interval(99, "x").is_err() && interval(3_600_001, "x").is_err());
    assert_eq!(grace(None, "x"), Ok(None));
    assert_eq!(grace(Some(0), "x"), Ok(Some(Duration::ZERO)));
    assert!(grace(Some(u64::MAX), "x").is_err());
}
