//! Manifests that are refused, each for one reason, and manifests at the edge that are accepted. Our validation and a real
//! API server are held against the same tables.

fn document(kind: &str, name: &str, spec: &str) -> String {
    format!("apiVersion: proofmill.dev/v1alpha1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec:\n{}", indented(spec))
}

fn indented(lines: &str) -> String {
    lines.lines().map(|line| format!("  {line}\n")).collect()
}

/// A job whose `spec` is `spec`, one field a line.
pub fn job(spec: &str) -> String {
    document("ProofJob", "first", spec)
}

/// A job on circuit `chain` with a valid input and `more` fields.
pub fn job_with(more: &str) -> String {
    job(&format!("circuitRef: {{name: chain}}\ninput: {{url: \"file:in\"}}\n{more}"))
}

pub fn job_on(input: &str) -> String {
    job(&format!("circuitRef: {{name: chain}}\ninput: {input}"))
}

pub fn circuit(spec: &str) -> String {
    document("Circuit", "chain", spec)
}

pub fn metadata(metadata: &str) -> String {
    job_with("").replace("{name: first}", metadata)
}

/// A pool whose `spec` is `spec`, one field a line.
pub fn pool(spec: &str) -> String {
    document("ProverPool", "pool", spec)
}

/// A pool of one pod with `more` fields.
pub fn pool_with(more: &str) -> String {
    pool(&format!("replicas: 1\n{more}"))
}

/// A pool of one pod whose template has these fields.
pub fn template(fields: &str) -> String {
    pool_with(&format!("template:\n{}", indented(fields)))
}

pub fn hex() -> String {
    "0123456789abcdef".repeat(4)
}

/// Manifest, path of the field, words of the message.
pub fn refused() -> Vec<(String, &'static str, &'static str)> {
    let long = |n: usize| "a".repeat(n);
    #[rustfmt::skip]
    let cases = vec![
        // What kind of thing it is.
        ("- a\n- b\n".into(), "", "must be a mapping with apiVersion, kind, metadata and spec, not a list"),
        ("hello\n".into(), "", "not a string"),
        ("kind: ProofJob\n".into(), "apiVersion", "is required, such as proofmill.dev/v1alpha1"),
        ("apiVersion: proofmill.dev/v1alpha1\n".into(), "kind", "is required"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: 3\n".into(), "kind", "must be a string, not a number"),
        ("apiVersion: {a: b}\nkind: ProofJob\n".into(), "apiVersion", "must be a string, not a mapping"),
        ("apiVersion: proofmill.dev/v1\nkind: ProofJob\n".into(), "apiVersion", "use proofmill.dev/v1alpha1"),
        ("apiVersion: proofmil.dev/v1alpha1\nkind: ProofJob\n".into(), "apiVersion", "use proofmill.dev/v1alpha1"),
        ("apiVersion: proofmil.dev/v1alpha1\nkind: Prof\n".into(), "apiVersion", "did you mean \"proofmill.dev/v1alpha1\"?"),
        ("apiVersion: v1\nkind: ConfigMap\n".into(), "apiVersion", "v1/ConfigMap is not an object of Proofmill"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJobs\n".into(), "kind", "did you mean \"ProofJob\"?"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: circuit\n".into(), "kind", "did you mean \"Circuit\"?"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: Prover\n".into(), "kind", "is not one of Circuit, ProofJob, ProverPool"),
        // Metadata.
        (metadata("{}"), "metadata.name", "is required"),
        (metadata(""), "metadata.name", "is required"),
        (metadata("first"), "metadata", "must be a mapping, not a string"),
        (metadata("{name: ''}"), "metadata.name", "is required"),
        (metadata("{name: 7}"), "metadata.name", "write it in quotes"),
        (metadata("{name: on}"), "metadata.name", "must be a string, not a boolean (write it in quotes)"),
        (metadata("{name: First}"), "metadata.name", "lower-case"),
        (metadata("{name: -first}"), "metadata.name", "start and end with a letter or digit"),
        (metadata("{name: a..b}"), "metadata.name", "lower-case"),
        (metadata(&format!("{{name: {}}}", long(254))), "metadata.name", "at most 253"),
        (metadata("{generateName: first-}"), "metadata.name", "generateName serves only kubectl create"),
        (metadata("{name: first, namespace: a.b}"), "metadata.namespace", "lower-case letters, digits and '-'"),
        (metadata(&format!("{{name: first, namespace: {}}}", long(64))), "metadata.namespace", "at most 63"),
        (metadata("{name: first, labels: [a]}"), "metadata.labels", "must be a mapping, not a list"),
        (metadata("{name: first, labels: {a: 1}}"), "metadata.labels", "the value of \"a\" must be a string"),
        (metadata("{name: first, labels: {a: b c}}"), "metadata.labels", "the value \"b c\""),
        (metadata("{name: first, labels: {-a: b}}"), "metadata.labels", "the key \"-a\""),
        (metadata("{name: first, labels: {a/b/c: d}}"), "metadata.labels", "the key \"a/b/c\""),
        (metadata("{name: first, annotations: {'': d}}"), "metadata.annotations", "the key \"\""),
        (metadata("{name: first, annotations: {a: true}}"), "metadata.annotations", "write it in quotes"),
        (metadata("{name: first, lables: {a: b}}"), "metadata.lables", "unknown field; did you mean \"labels\"?"),
        (metadata("{name: first, finalizers: 3}"), "metadata", "invalid type"),
        // The envelope.
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: a}\n".into(), "spec", "is required"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: a}\nspec:\n".into(), "spec", "is required"),
        ("apiVersion: proofmill.dev/v1alpha1\nkind: ProofJob\nmetadata: {name: a}\nspec: x\n".into(), "spec", "must be a mapping, not a string"),
        (job_with("").replace("spec:", "sepc:"), "sepc", "unknown field; did you mean \"spec\"?"),
        // The job's references.
        (job("input: {url: \"file:in\"}"), "spec.circuitRef", "is required"),
        (job("circuitRef: {}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "is required"),
        (job("circuitRef: {name: null}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "is required"),
        (job("circuitRef: chain\ninput: {url: \"file:in\"}"), "spec.circuitRef", "must be a mapping, not a string"),
        (job("circuitRef: {name: Chain}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "lower-case"),
        (job("circuitRef: {name: ''}\ninput: {url: \"file:in\"}"), "spec.circuitRef.name", "must not be empty"),
        (job("circuitRef: {name: chain, namespace: b}\ninput: {url: \"file:in\"}"), "spec.circuitRef.namespace", "unknown field; known here: name"),
        (job("circuitRef: [chain]\ninput: {url: \"file:in\"}"), "spec.circuitRef", "not a list"),
        (job_with("poolRef: {name: 5}"), "spec.poolRef.name", "write it in quotes"),
        // The input.
        (job("circuitRef: {name: chain}"), "spec.input", "is required"),
        (job_on("{}"), "spec.input", "exactly one of url, configMapKeyRef, secretKeyRef, inline"),
        (job_on("{url: null}"), "spec.input", "exactly one of"),
        (job_on("{url: \"file:in\", inline: AAAA}"), "spec.input", "exactly one of"),
        (job_on("{configMapKeyRef: {name: a, key: b}, secretKeyRef: {name: a, key: b}}"), "spec.input", "exactly one of"),
        (job_on("{sha256: \"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"}"), "spec.input", "exactly one of"),
        (job_on("in.json"), "spec.input", "must be a mapping, not a string"),
        (job_on("{url: in.json}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'file:'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: \"file:a\\0b\"}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'ftp://host/in'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'FILE:in'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'http://'}"), "spec.input.url", "must be file:PATH"),
        (job_on("{url: 'https://user:word@host/in'}"), "spec.input.url", "user name or password"),
        (job_on("{url: 'https://host/a b'}"), "spec.input.url", "without spaces"),
        (job_on("{url: 's3://bucket'}"), "spec.input.url", "s3://BUCKET/KEY"),
        (job_on("{url: 'gs:///key'}"), "spec.input.url", "gs://BUCKET/KEY"),
        (job_on("{url: ''}"), "spec.input.url", "must not be empty"),
        (job_on(&format!("{{url: 'file:{}'}}", long(2048))), "spec.input.url", "at most 2048 characters, not 2053"),
        (job_on("{url: [a]}"), "spec.input.url", "must be a string, not a list"),
        (job_on("{uri: 'file:in'}"), "spec.input.uri", "did you mean \"url\"?"),
        (job_on("{url: 'file:in', sha256: abc}"), "spec.input.sha256", "64 hexadecimal digits"),
        (job_on(&format!("{{url: 'file:in', sha256: '{}g'}}", &hex()[1..])), "spec.input.sha256", "64 hexadecimal digits"),
        (job_on(&format!("{{url: 'file:in', sha256: '{}0'}}", hex())), "spec.input.sha256", "at most 64"),
        (job_on("{url: 'file:in', sha256: 12345678}"), "spec.input.sha256", "write it in quotes"),
        (job_on("{inline: {x: 3}}"), "spec.input.inline", "must be a string, not a mapping"),
        (job_on("{inline: ''}"), "spec.input.inline", "must not be empty"),
        (job_on("{inline: AAA}"), "spec.input.inline", "at least 4"),
        (job_on("{inline: AAAAA}"), "spec.input.inline", "base64 with padding"),
        (job_on("{inline: 'AA_-'}"), "spec.input.inline", "base64 with padding"),
        (job_on("{inline: 'AAAA AAA'}"), "spec.input.inline", "in one line"),
        (job_on(&format!("{{inline: {}}}", long(65_540))), "spec.input.inline", "at most 65536 characters, not 65540"),
        (job_on("{configMapKeyRef: {name: a}}"), "spec.input.configMapKeyRef.key", "is required"),
        (job_on("{configMapKeyRef: {name: a, key: a/b}}"), "spec.input.configMapKeyRef.key", "must be a key"),
        (job_on("{secretKeyRef: {key: a}}"), "spec.input.secretKeyRef.name", "is required"),
        (job_on("{secretKeyRef: {name: a, key: b, optional: true}}"), "spec.input.secretKeyRef.optional", "unknown field"),
        (job_on("{secretKeyref: {name: a, key: b}}"), "spec.input.secretKeyref", "did you mean \"secretKeyRef\"?"),
        // The job's other fields.
        (job_with("priority: urgent"), "spec.priority", "\"urgent\" is not one of Low, Normal, High, Critical"),
        (job_with("priority: high"), "spec.priority", "did you mean \"High\"?"),
        (job_with("priority: 3"), "spec.priority", "must be a string, not a number"),
        (job_with("activeDeadlineSeconds: 0"), "spec.activeDeadlineSeconds", "must be at least 1, not 0"),
        (job_with("activeDeadlineSeconds: 1.5"), "spec.activeDeadlineSeconds", "must be an integer"),
        (job_with("activeDeadlineSeconds: '60'"), "spec.activeDeadlineSeconds", "write it without quotes"),
        (job_with("activeDeadlineSeconds: 60s"), "spec.activeDeadlineSeconds", "must be an integer, not a string"),
        (job_with("activeDeadlineSeconds: 99999999999999999999"), "spec.activeDeadlineSeconds", "must be"),
        (job_with("activeDeadlineSeconds: 18446744073709551615"), "spec.activeDeadlineSeconds", "at most 64 bits"),
        (job_with("backoffLimit: -1"), "spec.backoffLimit", "must be at least 0, not -1"),
        (job_with("backoffLimit: 101"), "spec.backoffLimit", "must be at most 100, not 101"),
        (job_with("backoffLimit: 4294967299"), "spec.backoffLimit", "must be at most"),
        (job_with("backofLimit: 1"), "spec.backofLimit", "unknown field; did you mean \"backoffLimit\"?"),
        (job_with("suspend: 1"), "spec.suspend", "must be true or false, not a number"),
        (job_with("suspend: 'yes'"), "spec.suspend", "write it without quotes"),
        (job_with("ttlSecondsAfterFinished: -5"), "spec.ttlSecondsAfterFinished", "must be at least 0"),
        (job_with("output: {}"), "spec.output.configMapName", "is required"),
        (job_with("output: {configMapName: A}"), "spec.output.configMapName", "lower-case"),
        (job_with("output: proof"), "spec.output", "must be a mapping"),
        (job_with("partitions: 3"), "spec.partitions", "unknown field; known here: "),
        // Circuits.
        (circuit("{}"), "spec", "exactly one of groth16, filecoin, simulated must be set"),
        (circuit("groth16: null"), "spec", "exactly one of groth16"),
        (circuit("simulated: {}\ngroth16: {zkey: {url: \"file:k\"}}"), "spec", "exactly one of groth16"),
        (circuit("groth16: {}"), "spec.groth16.zkey", "is required"),
        (circuit("groth16: {zkey: {}}"), "spec.groth16.zkey.url", "is required"),
        (circuit("groth16: {zkey: \"file:k\"}"), "spec.groth16.zkey", "must be a mapping, not a string"),
        (circuit("groth16: {zkey: {url: k.zkey}}"), "spec.groth16.zkey.url", "must be file:PATH"),
        (circuit("groth16: {zkey: {url: \"file:k\", sha256: x}}"), "spec.groth16.zkey.sha256", "64 hexadecimal digits"),
        (circuit("groth16: {zkey: {url: \"file:k\"}, wasm: {url: \"file:w\"}}"), "spec.groth16.wasm", "unknown field"),
        (circuit("groth16: {zkey: {url: \"file:k\"}, r1cs: {url: \"x\"}}"), "spec.groth16.r1cs.url", "must be file:PATH"),
        (circuit("groth16: {zkey: {url: \"file:k\"}}\nselfTest: {}"), "spec.selfTest.input", "is required"),
        (circuit("groth16: {zkey: {url: \"file:k\"}}\nselfTest: {input: {}}"), "spec.selfTest.input", "exactly one of url"),
        (circuit("groth16: {zkey: {url: \"file:k\"}}\nallowInsecureKeys: 'true'"), "spec.allowInsecureKeys", "without quotes"),
        (circuit("filecoin: {proof: PoRep, sectorSize: 32GiB}"), "spec.filecoin.parameters", "is required"),
        (circuit("filecoin: {proof: Porep, sectorSize: 32GiB, parameters: {url: \"file:p\"}}"), "spec.filecoin.proof", "did you mean \"PoRep\"?"),
        (circuit("filecoin: {proof: PoRep, sectorSize: 32, parameters: {url: \"file:p\"}}"), "spec.filecoin.sectorSize", "must be a string"),
        (circuit("filecoin: {proof: PoRep, sectorSize: 16GiB, parameters: {url: \"file:p\"}}"), "spec.filecoin.sectorSize", "is not one of 2KiB"),
        (circuit("simulated: {partitions: 0}"), "spec.simulated.partitions", "must be at least 1"),
        (circuit("simulated: {partitions: 129}"), "spec.simulated.partitions", "must be at most 128"),
        (circuit("simulated: {milliseconds: {synthesis: -1}}"), "spec.simulated.milliseconds.synthesis", "at least 0"),
        (circuit("simulated: {milliseconds: {finish: 3600001}}"), "spec.simulated.milliseconds.finish", "at most 3600000"),
        (circuit("simulated: {milliseconds: {msmg1: 1}}"), "spec.simulated.milliseconds.msmg1", "did you mean \"msmG1\"?"),
        (circuit("simulated: {bytes: {key: 1e20}}"), "spec.simulated.bytes.key", "must be an integer"),
        (circuit("simulated: {bytes: 5}"), "spec.simulated.bytes", "must be a mapping, not a number"),
        // Pools: how many pods.
        (pool("{}"), "spec", "exactly one of replicas and autoscaling must be set"),
        (pool("replicas: 1\nautoscaling: {maxReplicas: 2}"), "spec", "exactly one of replicas and autoscaling"),
        (pool("replicas: null"), "spec", "exactly one of replicas and autoscaling"),
        (pool("replicas: -1"), "spec.replicas", "must be at least 0"),
        (pool("replicas: 1001"), "spec.replicas", "must be at most 1000"),
        (pool("replicas: '1'"), "spec.replicas", "write it without quotes"),
        (pool("autoscaling: {}"), "spec.autoscaling.maxReplicas", "is required"),
        (pool("autoscaling: {minReplicas: 3, maxReplicas: 2}"), "spec.autoscaling", "minReplicas must not be more than maxReplicas"),
        (pool("autoscaling: {maxReplicas: 0}"), "spec.autoscaling.maxReplicas", "must be at least 1"),
        (pool("autoscaling: {minReplicas: -1, maxReplicas: 2}"), "spec.autoscaling.minReplicas", "must be at least 0"),
        (pool("autoscaling: {maxReplicas: 2, targetQueueSeconds: 0}"), "spec.autoscaling.targetQueueSeconds", "at least 1"),
        (pool("autoscaling: {maxReplicas: 2, scaleDownStabilizationSeconds: 5m}"), "spec.autoscaling.scaleDownStabilizationSeconds", "must be an integer"),
        (pool("autoscaling: {maxReplicas: 2, minReplica: 1}"), "spec.autoscaling.minReplica", "did you mean \"minReplicas\"?"),
        (pool_with("circuits: [Chain]"), "spec.circuits[0]", "lower-case"),
        (pool_with("circuits: [chain, other, chain]"), "spec.circuits[2]", "another item is the same"),
        (pool_with("circuits: [{name: chain}]"), "spec.circuits[0]", "must be a string, not a mapping"),
        (pool_with(&format!("circuits: [{}]", (0..65).map(|i| format!("c{i}")).collect::<Vec<_>>().join(", "))), "spec.circuits", "at most 64 items, not 65"),
        (pool_with("disruptionProtection: whileBusy"), "spec.disruptionProtection", "did you mean \"WhileBusy\"?"),
        (pool_with("maxHoldSeconds: 10"), "spec.maxHoldSeconds", "must be at least 60"),
        (pool_with("maxHold: 24h"), "spec.maxHold", "unknown field"),
        (pool_with("").replace("{name: pool}", "{name: a.b}"), "", "metadata.name must have at most 48 characters and no dot"),
        (pool_with("").replace("{name: pool}", &format!("{{name: {}}}", long(49))), "", "at most 48 characters"),
        // Their pods.
        (template("image: ''"), "spec.template.image", "must not be empty"),
        (template("image: 'a b'"), "spec.template.image", "must not hold spaces"),
        (template("imagePullPolicy: Sometimes"), "spec.template.imagePullPolicy", "is not one of Always, IfNotPresent, Never"),
        (template("imagePullSecrets: [registry]"), "spec.template.imagePullSecrets[0]", "must be a mapping"),
        (template("imagePullSecrets: [{name: a}, {name: a}]"), "spec.template.imagePullSecrets[1]", "another item has the same name"),
        (template("engine: {device: Gpu}"), "spec.template.engine.device", "is not one of Cpu, Cuda, Simulated"),
        (template("engine: {threads: 0}"), "spec.template.engine.threads", "must be at least 1"),
        (template("engine: {memory: lots}"), "spec.template.engine.memory", "must be a size such as 512Mi or 16Gi"),
        (template("engine: {memory: 16GiB}"), "spec.template.engine.memory", "must be a size"),
        (template("engine: {memory: 500m}"), "spec.template.engine.memory", "must be a size"),
        (template("engine: {memory: -1}"), "spec.template.engine.memory", "must be at least 0"),
        (template("engine: {memory: 1.5}"), "spec.template.engine.memory", "write it in quotes"),
        (template("engine: {memory: [16Gi]}"), "spec.template.engine.memory", "must be an integer or a string, not a list"),
        (template("engine: {device: Cpu, simulatedDevices: 2}"), "spec.template.engine", "simulatedDevices needs device Simulated"),
        (template("engine: {allowUrls: ['file:a']}"), "spec.template.engine.allowUrls[0]", "must be http(s)://HOST/FOLDER/"),
        (template("engine: {allowUrls: ['https://user@host/']}"), "spec.template.engine.allowUrls[0]", "without spaces, query, user name"),
        (template("engine: {allowUrls: ['https://h/', 'https://h/']}"), "spec.template.engine.allowUrls[1]", "another item is the same"),
        (template("resources: {limits: {nvidia.com/gpu: 1}}"), "spec.template", "only engine.device Cuda would use"),
        (template("resources: {limits: {cpu: many}}"), "spec.template.resources.limits.cpu", "must be a quantity such as 2, 500m or 16Gi"),
        (template("resources: {limits: {cpu: -1}}"), "spec.template.resources.limits.cpu", "must be at least 0"),
        (template("resources: {requests: {cpu: '-1'}}"), "spec.template.resources.requests.cpu", "must be a quantity"),
        (template("resources: {requests: {cpu: true}}"), "spec.template.resources.requests.cpu", "must be an integer or a string"),
        (template("resources: {requests: {'': 1}}"), "spec.template.resources.requests", "every key must have 1 to 317 characters"),
        (template(&format!("resources: {{requests: {{{}}}}}", (0..17).map(|i| format!("r{i}: 1")).collect::<Vec<_>>().join(", "))), "spec.template.resources.requests", "at most 16 entries, not 17"),
        (template("resources: {claims: [a]}"), "spec.template.resources.claims", "unknown field"),
        (template("resources: {resourceClaimTemplateName: A}"), "spec.template.resources.resourceClaimTemplateName", "lower-case"),
        (template("nodeSelector: {zone: 1}"), "spec.template.nodeSelector.zone", "write it in quotes"),
        (template("nodeSelector: {zone: 'a b'}"), "spec.template.nodeSelector.zone", "letters, digits"),
        (template("nodeSelector: [zone]"), "spec.template.nodeSelector", "must be a mapping, not a list"),
        (template(&format!("nodeSelector: {{{}: b}}", long(318))), "spec.template.nodeSelector", "1 to 317 characters"),
        (template("tolerations: [{key: gpu, operator: Is}]"), "spec.template.tolerations[0].operator", "is not one of Equal, Exists"),
        (template("tolerations: [{key: gpu, effect: NoSchedul}]"), "spec.template.tolerations[0].effect", "did you mean \"NoSchedule\"?"),
        (template("dataVolume: {}"), "spec.template.dataVolume", "exactly one of persistentVolumeClaim, emptyDir"),
        (template("dataVolume: {emptyDir: {}, persistentVolumeClaim: {claimName: a}}"), "spec.template.dataVolume", "exactly one of"),
        (template("dataVolume: {hostPath: {path: /data}}"), "spec.template.dataVolume.hostPath", "unknown field"),
        (template("dataVolume: {persistentVolumeClaim: {}}"), "spec.template.dataVolume.persistentVolumeClaim.claimName", "is required"),
        (template("keyCache: {sizeLimit: 1Xi}"), "spec.template.keyCache.sizeLimit", "must be a size"),
        (template("env: [{name: A}]"), "spec.template.env[0]", "exactly one of value, valueFrom"),
        (template("env: [{name: A, value: b}, {name: A, value: c}]"), "spec.template.env[1]", "another item has the same name"),
        (template("env: [{name: 1A, value: b}]"), "spec.template.env[0].name", "not starting with a digit"),
        (template("env: [{name: A, value: 1}]"), "spec.template.env[0].value", "write it in quotes"),
        (template("env: [{name: A, valueFrom: {}}]"), "spec.template.env[0].valueFrom", "exactly one of configMapKeyRef, secretKeyRef"),
        (template("env: [{name: A, valueFrom: {fieldRef: {fieldPath: a}}}]"), "spec.template.env[0].valueFrom.fieldRef", "unknown field"),
        (template("serviceAccountName: ''"), "spec.template.serviceAccountName", "must not be empty"),
        (template("terminationGracePeriodSeconds: 5"), "spec.template.terminationGracePeriodSeconds", "must be at least 30"),
        (template("podTemplate: {sepc: {}}"), "spec.template.podTemplate.sepc", "did you mean \"spec\"?"),
        (template("podTemplate: {spec: []}"), "spec.template.podTemplate.spec", "must be a mapping, not a list"),
        (template("podTemplate: {metadata: {name: a}}"), "spec.template.podTemplate.metadata.name", "unknown field"),
        (template("podTemplate: {metadata: {labels: {a: -b}}}"), "spec.template.podTemplate.metadata.labels.a", "start and end with a letter or digit"),
        (template("podTemplate: {metadata: {annotations: {a: {}}}}"), "spec.template.podTemplate.metadata.annotations.a", "must be a string"),
        (template("privileged: true"), "spec.template.privileged", "unknown field"),
    ];
    cases
}

/// What is right, though it may look strange.
pub fn accepted() -> Vec<String> {
    vec![
        job_with(""),
        job_with("backoffLimit: 0"),
        job_with("backoffLimit: 3.0"),
        job_with("suspend: yes"),
        job_with("output: null"),
        job_with("poolRef: {}"),
        job_with("activeDeadlineSeconds: 31536000"),
        job_on("{url: 'https://host'}"),
        job_on("{url: 'https://host/in?X-Amz-Signature=a@b'}"),
        job_on("{url: 'https://[::1]:8443/in'}"),
        job_on("{url: 's3://bucket/a/b'}"),
        job_on("{url: 'az://container/a'}"),
        job_on("{url: 'file:../a b/ü.json'}"),
        job_on("{url: 'file:///srv/in.json'}"),
        job_on(&format!("{{url: 'file:in', sha256: '{}'}}", hex().to_uppercase())),
        job_on(&format!("{{inline: {}}}", "a".repeat(65_536))),
        job_on("{inline: 'AAA='}"),
        job_on("{configMapKeyRef: {name: a.b-c, key: _in.json}}"),
        job_on("{secretKeyRef: {name: a, key: b}}"),
        metadata("{name: a.b-1, namespace: team-1, labels: {example.com/team: A_b.c, empty: ''}}"),
        metadata("{name: first, annotations: {Example.com/Note: 'any text at all'}}"),
        metadata(
            "{name: first, uid: u, resourceVersion: '5', creationTimestamp: '2026-01-31T12:00:00Z', generation: 2}",
        ),
        circuit("simulated: {}"),
        circuit("filecoin: {proof: WindowPoSt, sectorSize: 2KiB, parameters: {url: \"https://h/p\"}}"),
        circuit("groth16: {zkey: {url: \"file:k\"}}\nselfTest: {input: {inline: AAAA}}\nallowInsecureKeys: true"),
        pool_with(""),
        pool("replicas: 0"),
        pool("autoscaling: {minReplicas: 0, maxReplicas: 1}"),
        pool("autoscaling: {maxReplicas: 1000, targetQueueSeconds: 5, scaleUpStabilizationSeconds: 60}"),
        pool("replicas: null\nautoscaling: {maxReplicas: 4}\ntemplate: null"),
        pool_with("circuits: [chain, other.one]\ndisruptionProtection: Always\nmaxHoldSeconds: 3600"),
        template(
            "image: 'registry:5000/prover@sha256:0123'\nimagePullPolicy: Never\nimagePullSecrets: [{name: registry}]",
        ),
        template("engine: {device: Cuda, memory: 200Gi, reserveCritical: 0}\nresources: {limits: {nvidia.com/gpu: 1}}"),
        template("engine: {device: Simulated, simulatedDevices: 8, allowUrls: ['s3://bucket', 'https://host/keys/']}"),
        template("engine: {device: Cuda}\nresources: {resourceClaimTemplateName: h200}"),
        template(
            "resources: {requests: {cpu: '0.5', memory: 1e9, ephemeral-storage: 10}, limits: {cpu: 1500m, memory: 2.5Gi}}",
        ),
        template(
            "nodeSelector: {nvidia.com/gpu.product: NVIDIA-H200, empty: ''}\ntolerations: [{operator: Exists}, {key: gpu, value: a, effect: NoExecute, tolerationSeconds: 60}]",
        ),
        template("dataVolume: {emptyDir: {}}\nkeyCache: {sizeLimit: 200Gi, persistentVolumeClaim: {claimName: keys}}"),
        template(
            "env: [{name: A, value: ''}, {name: B, valueFrom: {secretKeyRef: {name: s3, key: id}}}]\nserviceAccountName: prover",
        ),
        template(
            "podTemplate: {metadata: {labels: {team: zk}}, spec: {hostNetwork: true, containers: [{name: prover, volumeMounts: [{name: a, mountPath: /a}], env: null}]}}",
        ),
    ]
}
