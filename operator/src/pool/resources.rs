//! What a pod asks of its node: what the template says, and what its engine needs where the template says nothing.

use proofmill_crds::pool_template::{Device, Engine, PoolTemplate, Resources};
use proofmill_crds::quantity::Quantity;
use serde_json::{Map, Value, json};

use super::CircuitSize;
use super::pod::TemplateInvalid;

/// Room for whatever else a prover writes.
pub(super) const SCRATCH: u64 = 1 << 30;

/// Room for keys when the template says nothing.
const KEY_CACHE: u64 = 20 << 30;
/// Processors when the template says nothing.
const PROCESSORS: &str = "2";
/// The least memory when the template says nothing: enough to prove circuits of about 2^18 constraints.
const MEMORY: u64 = 4 << 30;
/// Sizes are a multiple of this, so that a small change of a circuit replaces no pod.
const MEMORY_STEP: u64 = 256 << 20;
/// What an engine keeps of its container's memory for all that its budget does not count: this, or a tenth.
const MARGIN: u64 = 512 << 20;

/// Processors, disk and devices; memory only if the template says how much. Requests and limits each fill the other's gaps,
/// so that one number is enough and the engine's memory budget, which follows the limit, is memory that the node really has.
pub(super) fn resources(template: &PoolTemplate) -> Value {
    let Resources { mut requests, mut limits, resource_claim_template_name: claim } =
        template.resources.clone().unwrap_or_default();
    // Extended resources have a domain; of those a GPU pool asks for some kind of device.
    let device = limits.keys().chain(requests.keys()).any(|name| name.contains('/'));
    if template.engine.device == Device::Cuda && claim.is_none() && !device {
        limits.insert("nvidia.com/gpu".to_owned(), Quantity::Integer(1));
    }
    if !requests.contains_key("cpu") && !limits.contains_key("cpu") {
        requests.insert("cpu".to_owned(), Quantity::Text(PROCESSORS.to_owned()));
    }
    for (name, amount) in requests.clone() {
        limits.entry(name).or_insert(amount);
    }
    for (name, amount) in &limits {
        requests.entry(name.clone()).or_insert_with(|| amount.clone());
    }
    let on_disk = match &template.key_cache {
        Some(cache) if cache.persistent_volume_claim.is_some() => 0,
        _ => key_cache(template),
    };
    // A request only: the volumes have limits of their own.
    requests.entry("ephemeral-storage".to_owned()).or_insert_with(|| Quantity::Text((on_disk + SCRATCH).to_string()));
    let mut value = json!({"requests": text(requests), "limits": text(limits)});
    if claim.is_some() {
        value["claims"] = json!([{"name": "devices"}]);
    }
    value
}

/// Gives a container memory for its engine if nobody else did; the bytes.
pub(super) fn fill_memory(
    container: &mut Map<String, Value>,
    template: &PoolTemplate,
    circuits: &[CircuitSize],
) -> Option<u64> {
    let resources = container.get("resources")?;
    if ["requests", "limits"].iter().any(|list| resources[list].get("memory").is_some()) {
        return None;
    }
    let bytes = memory(template, circuits);
    let memory = json!({"memory": format!("{}Mi", bytes >> 20)});
    let sized = json!({"resources": {"requests": memory, "limits": memory}});
    if let Value::Object(sized) = sized {
        super::overlay::merge_mapping(container, &sized);
    }
    Some(bytes)
}

/// Refuses a container whose engine would end at once for want of memory.
pub(super) fn check_memory(container: &Map<String, Value>, engine: &Engine) -> Result<(), TemplateInvalid> {
    let given = ["limits", "requests"].iter().find_map(|list| {
        let amount = container.get("resources")?.get(list)?.get("memory")?;
        bytes(&serde_json::from_value(amount.clone()).ok()?)
    });
    match given {
        Some(given) if engine.memory.is_none() && given <= MARGIN => Err(TemplateInvalid {
            path: "spec.template.resources.limits.memory".to_owned(),
            problem: format!(
                "{given} bytes are no more than the {MARGIN} that an engine keeps beside its budget: give it more, or leave \
                 it out to have it computed from spec.circuits"
            ),
        }),
        _ => Ok(()),
    }
}

/// Bytes of memory for an engine that keeps the circuits' keys resident and its devices fed: for each device one partition
/// in work and one that waits for it, and one more in synthesis.
fn memory(template: &PoolTemplate, circuits: &[CircuitSize]) -> u64 {
    let Engine { memory, reserve_critical, .. } = &template.engine;
    let budget = memory.as_ref().and_then(bytes).unwrap_or_else(|| {
        let keys = circuits.iter().fold(0_u64, |sum, circuit| sum.saturating_add(circuit.key));
        // Of a key that has never been loaded only its own size is known. A partition takes less.
        let partition = circuits.iter().map(|circuit| circuit.partition.unwrap_or(circuit.key)).max().unwrap_or(0);
        let partitions = partition.saturating_mul(2 * devices(template) + 1);
        let reserve = reserve_critical.as_ref().and_then(bytes).unwrap_or(0);
        let work = keys.saturating_add(partitions).saturating_add(reserve);
        // An eighth of the budget is the inputs'.
        work.saturating_add(work.div_ceil(7))
    });
    let tenth = budget.div_ceil(9);
    let container = budget.saturating_add(tenth.max(MARGIN));
    container.max(MEMORY).checked_next_multiple_of(MEMORY_STEP).unwrap_or(u64::MAX)
}

/// Devices of a pod.
fn devices(template: &PoolTemplate) -> u64 {
    let engine = &template.engine;
    let devices = match engine.device {
        Device::Cpu => None,
        Device::Simulated => engine.simulated_devices.and_then(|count| u64::try_from(count).ok()),
        Device::Cuda => template.resources.as_ref().and_then(|resources| {
            let all = resources.limits.iter().chain(&resources.requests);
            all.filter(|(name, _)| name.contains('/')).filter_map(|(_, amount)| bytes(amount)).max()
        }),
    };
    devices.unwrap_or(1).clamp(1, 64)
}

/// Bytes that keys may take, of the volume.
pub(super) fn key_cache(template: &PoolTemplate) -> u64 {
    template.key_cache.as_ref().and_then(|cache| cache.size_limit.as_ref()).and_then(bytes).unwrap_or(KEY_CACHE)
}

/// Quantities as the API server gives them back.
fn text(quantities: impl IntoIterator<Item = (String, Quantity)>) -> Map<String, Value> {
    quantities.into_iter().map(|(name, amount)| (name, amount.to_string().into())).collect()
}

/// A size in bytes; none for what the schema does not let through.
fn bytes(size: &Quantity) -> Option<u64> {
    let text = size.to_string();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor: u64 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let digits = u32::try_from(fraction.len()).ok().filter(|digits| *digits <= 9)?;
    let part = if digits == 0 { 0 } else { fraction.parse::<u64>().ok()? };
    let part = u128::from(part) * u128::from(factor) / 10u128.pow(digits);
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn size(template: &Value, circuits: &[(u64, Option<u64>)]) -> u64 {
        let template: PoolTemplate = serde_json::from_value(template.clone()).unwrap();
        let circuits: Vec<_> = circuits.iter().map(|&(key, partition)| CircuitSize { key, partition }).collect();
        memory(&template, &circuits)
    }

    #[test]
    fn memory_holds_all_keys_and_what_a_device_is_fed_with() {
        let cpu = json!({});
        assert_eq!(size(&cpu, &[]), 4 * GIB, "the least");
        assert_eq!(size(&cpu, &[(GIB / 4, Some(GIB / 4))]), 4 * GIB);
        // 10 + 1 + 3 * 6 = 29 GiB of work are seven eighths of a budget of 33.14 GiB, nine tenths of 36.83 GiB.
        assert_eq!(size(&cpu, &[(10 * GIB, Some(6 * GIB)), (GIB, Some(GIB))]), 37 * GIB);
        // A key that did not fit: its partitions may take as much as itself.
        assert_eq!(size(&cpu, &[(10 * GIB, None)]), size(&cpu, &[(10 * GIB, Some(10 * GIB))]));
        let gpus = json!({"engine": {"device": "Cuda"}, "resources": {"limits": {"nvidia.com/gpu": 4}}});
        // 1 + 9 * 1 = 10 GiB of work, 11.43 GiB of budget, 12.70 GiB of memory.
        assert_eq!(size(&gpus, &[(GIB, Some(GIB))]), 12 * GIB + 3 * GIB / 4);
        assert_eq!(size(&cpu, &[(u64::MAX, Some(u64::MAX)), (1, None)]), u64::MAX, "no overflow");
    }

    #[test]
    fn a_given_budget_gets_its_margin() {
        assert_eq!(size(&json!({"engine": {"memory": "4Gi"}}), &[(100 * GIB, None)]), 4 * GIB + GIB / 2);
        assert_eq!(size(&json!({"engine": {"memory": "90Gi"}}), &[]), 100 * GIB);
    }

    #[test]
    fn what_critical_jobs_have_for_themselves_comes_on_top() {
        let reserve = json!({"engine": {"reserveCritical": "7Gi"}});
        assert_eq!(size(&reserve, &[]), 9 * GIB);
    }

    #[test]
    fn sizes_in_bytes() {
        let of = |text: &str| bytes(&Quantity::Text(text.to_owned()));
        assert_eq!(of("100"), Some(100));
        assert_eq!(of("2k"), Some(2_000));
        assert_eq!(of("1.5Gi"), Some(3 << 29));
        assert_eq!(of("20Ti"), Some(20 << 40));
        assert_eq!(bytes(&Quantity::Integer(7)), Some(7));
        for wrong in ["", "x", "1Pi", "99999999999999999999", "99999999999Ti", "1.0000000001Gi"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
