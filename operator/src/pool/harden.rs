//! What the overlay must not ask for, and what every prover pod is, whatever the overlay says.

use serde_json::{Map, Value, json};

use super::pod::{HTTP_PORT, PROVER, TemplateInvalid, USER};

/// Where in a pool the overlay's pod spec is.
const SPEC: &str = "spec.template.podTemplate.spec";
/// Lists of containers in a pod's spec.
const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Looks for what gives a pod power over its node. With `privileged` that is allowed.
pub(super) fn check(spec: &Map<String, Value>, privileged: bool) -> Result<(), TemplateInvalid> {
    for list in LISTS {
        let named = |item: &Value| item["name"].is_string();
        if spec.get(list).is_some_and(|value| !value.as_array().is_some_and(|items| items.iter().all(named))) {
            return Err(invalid(list, "must be a list of containers, each with a name"));
        }
    }
    let prover = each(spec).filter(|(list, _)| *list == LISTS[0]).any(|(_, item)| item["name"] == PROVER);
    if !prover {
        return Err(invalid("containers", &format!("must keep the container `{PROVER}`")));
    }
    if !spec.get("volumes").is_none_or(Value::is_array) {
        return Err(invalid("volumes", "must be a list of volumes"));
    }
    if spec.contains_key("ephemeralContainers") {
        return Err(invalid("ephemeralContainers", "cannot be part of a new pod"));
    }
    let root = |context: &Value| context["runAsUser"] == 0;
    if spec.get("securityContext").is_some_and(root) {
        return Err(invalid("securityContext.runAsUser", "must not be 0: no container runs as root"));
    }
    for (list, container) in each(spec) {
        if root(&container["securityContext"]) {
            let place = place(list, container, "securityContext.runAsUser");
            return Err(invalid(&place, "must not be 0: no container runs as root"));
        }
    }
    if privileged { Ok(()) } else { check_power(spec) }
}

/// Imposes what every prover pod is.
pub(super) fn impose(spec: &mut Map<String, Value>) {
    spec.insert("automountServiceAccountToken".into(), Value::Bool(false));
    spec.insert("enableServiceLinks".into(), Value::Bool(false));
    spec.insert("restartPolicy".into(), "Always".into());
    edit(spec, "securityContext", |context| {
        context.insert("runAsNonRoot".into(), Value::Bool(true));
        context.insert("seccompProfile".into(), json!({"type": "RuntimeDefault"}));
        for field in ["runAsUser", "runAsGroup", "fsGroup"] {
            context.entry(field).or_insert(USER.into());
        }
        // A claim full of keys is not walked at each start.
        context.entry("fsGroupChangePolicy").or_insert("OnRootMismatch".into());
    });
    for list in LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                edit(container, "securityContext", confine);
            }
        }
    }
}

/// Probes of the engine's HTTP port.
pub(super) fn probes(container: &mut Map<String, Value>) {
    let probe = |path: &str, period: i64, failures: i64| {
        json!({
            "httpGet": {"path": path, "port": HTTP_PORT, "scheme": "HTTP"},
            "periodSeconds": period,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        })
    };
    // Ready means that each device has proved something; a GPU that cannot in ten minutes gets a new process.
    container.insert("startupProbe".into(), probe("/readyz", 2, 300));
    container.insert("readinessProbe".into(), probe("/readyz", 5, 3));
    container.insert("livenessProbe".into(), probe("/healthz", 10, 6));
    // It would end an engine that has work.
    container.remove("lifecycle");
}

/// What a container's security context must be.
fn confine(context: &mut Map<String, Value>) {
    let privileged = context.get("privileged") == Some(&Value::Bool(true));
    let added = context.get("capabilities").and_then(|capabilities| capabilities.get("add")).cloned();
    let power = privileged || added.as_ref().is_some_and(|added| added != &json!([]));
    context.insert("readOnlyRootFilesystem".into(), Value::Bool(true));
    context.insert("runAsNonRoot".into(), Value::Bool(true));
    if power {
        // Only where pools may be privileged. The API server refuses both at once.
        context.remove("allowPrivilegeEscalation");
    } else {
        context.insert("allowPrivilegeEscalation".into(), Value::Bool(false));
    }
    let mut capabilities = json!({"drop": ["ALL"]});
    if let Some(added) = added.filter(|_| power) {
        capabilities["add"] = added;
    }
    context.insert("capabilities".into(), capabilities);
    context.insert("seccompProfile".into(), json!({"type": "RuntimeDefault"}));
}

fn check_power(spec: &Map<String, Value>) -> Result<(), TemplateInvalid> {
    const SWITCH: &str = "; the operator's --allow-privileged-pools would allow it";
    let refuse = |place: &str, why: &str| Err(invalid(place, &format!("{why}{SWITCH}")));
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec.get(field).is_some_and(|value| value != false) {
            return refuse(field, "must not be set: a prover needs nothing of its host");
        }
    }
    let windows = |context: &Value| !context["windowsOptions"]["hostProcess"].is_null();
    let unconfined = |context: &Value| context["appArmorProfile"]["type"] == "Unconfined";
    if let Some(context) = spec.get("securityContext") {
        if windows(context) {
            return refuse("securityContext.windowsOptions.hostProcess", "must not be set");
        }
        if unconfined(context) {
            return refuse("securityContext.appArmorProfile.type", "must not be Unconfined");
        }
    }
    for volume in spec.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        if volume.get("hostPath").is_some() {
            let name = volume["name"].as_str().unwrap_or_default();
            return refuse(&format!("volumes[{name}].hostPath"), "must not be used: it is the node's file system");
        }
    }
    for (list, container) in each(spec) {
        let context = &container["securityContext"];
        let added = &context["capabilities"]["add"];
        let field = if context["privileged"] != false && !context["privileged"].is_null() {
            "securityContext.privileged"
        } else if !added.is_null() && added != &json!([]) {
            "securityContext.capabilities.add"
        } else if context.get("procMount").is_some_and(|mount| mount != "Default") {
            "securityContext.procMount"
        } else if windows(context) {
            "securityContext.windowsOptions.hostProcess"
        } else if unconfined(context) {
            "securityContext.appArmorProfile.type"
        } else if has_host_port(container) {
            "ports[].hostPort"
        } else {
            continue;
        };
        return refuse(&place(list, container, field), "gives the container power over its node");
    }
    Ok(())
}

fn has_host_port(container: &Value) -> bool {
    let ports = container["ports"].as_array();
    ports.into_iter().flatten().any(|port| port.get("hostPort").is_some_and(|port| port != 0))
}

/// All containers, each with the list that it is in.
fn each(spec: &Map<String, Value>) -> impl Iterator<Item = (&'static str, &Value)> {
    LISTS.into_iter().flat_map(|list| {
        let items = spec.get(list).and_then(Value::as_array).into_iter().flatten();
        items.map(move |item| (list, item))
    })
}

fn place(list: &str, container: &Value, field: &str) -> String {
    format!("{list}[{}].{field}", container["name"].as_str().unwrap_or_default())
}

fn invalid(place: &str, problem: &str) -> TemplateInvalid {
    TemplateInvalid { path: format!("{SPEC}.{place}"), problem: problem.to_owned() }
}

/// Changes the mapping beneath a key; what is something else becomes one.
pub(super) fn edit(parent: &mut Map<String, Value>, key: &str, change: impl FnOnce(&mut Map<String, Value>)) {
    let mut mapping = match parent.remove(key) {
        Some(Value::Object(mapping)) => mapping,
        _ => Map::new(),
    };
    change(&mut mapping);
    parent.insert(key.to_owned(), Value::Object(mapping));
}
