//! What becomes of a pool: the bridge between what the planner knows and [`crate::pool`], which decides.

use std::time::Duration;

use proofmill_crds::circuit::CircuitStatus;
use proofmill_crds::conditions::{ConditionStatus, types};

use super::{Change, Command, Planner, Subject, Tended, apply};
use crate::clock::Now;
use crate::fleet::Engine;
use crate::index::{CircuitObject, HasMeta, Key, PodObject, PoolObject};
use crate::jobs::failure;
use crate::jobs::message;
use crate::pool::{
    self, Checked, CircuitSize, Demand, EngineView, KeyLoad, Memory, NodeView, PodInput, PoolInput, Refusal,
};

/// Figures alone are written at most so often.
const FIGURES_EVERY: Duration = Duration::from_secs(10);

/// A circuit that an engine could not load is tried again after this, if that may help.
const LOAD_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// A pool as the planner knows it.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// Its object, as last seen.
    pub object: PoolObject,
    memory: Memory,
    checked: Option<Checked>,
    refusal: Option<Refusal>,
    /// What it needed last is being done.
    tending: bool,
    /// Its certificate is being kept up by this process.
    pub(super) kept: bool,
    /// How often that has failed in a row.
    failures: u32,
    /// Nothing is done before this.
    after: Duration,
    /// Figures alone are not written before this.
    figures_after: Duration,
}

impl HasMeta for Pool {
    fn meta(&self) -> &crate::index::Meta {
        &self.object.meta
    }
}

impl Pool {
    fn new(object: PoolObject) -> Self {
        Self {
            object,
            memory: Memory::default(),
            checked: None,
            refusal: None,
            tending: false,
            kept: false,
            failures: 0,
            after: Duration::ZERO,
            figures_after: Duration::ZERO,
        }
    }

    /// Why its pods take no work, if its status says so: reason and message.
    pub fn trouble(&self) -> Option<(&str, &str)> {
        let ready = self.object.status.conditions.iter().find(|c| c.type_ == types::READY)?;
        (ready.status != ConditionStatus::True).then_some((&*ready.reason, &*ready.message))
    }
}

impl Planner {
    pub(super) fn see_pools(&mut self, change: Change<PoolObject>) {
        let mut objects = self.pools.iter().map(|(key, pool)| (key.clone(), pool.object.clone())).collect();
        for key in apply(&mut objects, change) {
            match objects.remove(&key) {
                None => {
                    self.pools.remove(&key);
                    self.account.forget_pool(&key);
                    self.commands.push(Command::ForgetPool(key.clone()));
                }
                Some(object) => match self.pools.get_mut(&key).filter(|pool| pool.object.meta.uid == object.meta.uid) {
                    Some(pool) => pool.object = object,
                    None => {
                        // Its counters begin with it, at 0.
                        self.account.pool(&key);
                        self.pools.insert(key.clone(), Pool::new(object));
                    }
                },
            }
            self.touch_jobs_of(|job| job.object.meta.key.sibling(&job.object.spec.pool_ref.name) == key);
            self.dirty.insert(Subject::Pool(key));
        }
    }

    /// Pools whose pods change are looked at.
    pub(super) fn touch_pools_of(&mut self, change: &Change<PodObject>) {
        let pools = match change {
            Change::Applied(pod) => vec![pod.meta.key.sibling(&pod.pool)],
            Change::Deleted(key) => self.pods.get(key).map(|pod| key.sibling(&pod.pool)).into_iter().collect(),
            Change::Listed(..) => self.pools.keys().cloned().collect(),
        };
        self.dirty.extend(pools.into_iter().map(Subject::Pool));
    }

    /// Decides what a pool needs now.
    pub(super) fn look_at_pool(&mut self, key: &Key, now: &Now) {
        self.preload(key);
        if let Some(pool) = self.pools.get_mut(key).filter(|pool| !pool.kept) {
            pool.kept = true;
            self.commands.push(Command::KeepPool(Box::new(pool.object.clone())));
        }
        let Some(pool) = self.pools.get(key).filter(|pool| !pool.tending) else { return };
        if now.mono < pool.after {
            self.look_again(Subject::Pool(key.clone()), pool.after);
            return;
        }
        let input = PoolInput {
            pool: &pool.object,
            known: self.kept_circuits(pool).map(|(name, _)| name).collect(),
            circuits: self.sizes(pool),
            pods: self.pods_of(key).map(|pod| self.pod_input(pod, &pool.object.spec.circuits, now)).collect(),
            settings: &self.settings.pools,
            checked: pool.checked.as_ref(),
            refusal: pool.refusal.as_ref(),
            demand: self.demand(pool, now.mono),
            memory: pool.memory,
            now: now.wall.as_second(),
        };
        let plan = pool::plan(&input);
        if let Some(wake) = plan.wake {
            self.look_again(Subject::Pool(key.clone()), now.mono_at(wake));
        }
        let Some(pool) = self.pools.get_mut(key) else { return };
        pool.memory = plan.memory;
        let mut again = None;
        let status = plan.status.filter(|write| {
            let due = write.urgent || now.mono >= pool.figures_after;
            if !due {
                again = Some(pool.figures_after);
            }
            due
        });
        if !plan.actions.is_empty() || status.is_some() {
            if status.is_some() {
                pool.figures_after = now.mono + FIGURES_EVERY;
            }
            pool.tending = true;
            let status = status.map(|write| Box::new(write.status));
            let pool = Box::new(pool.object.clone());
            self.commands.push(Command::Tend { pool, actions: plan.actions, status });
        }
        if let Some(at) = again {
            self.look_again(Subject::Pool(key.clone()), at);
        }
    }

    pub(super) fn see_tended(&mut self, key: &Key, uid: &str, news: Tended, now: &Now) {
        let Some(pool) = self.pools.get_mut(key).filter(|pool| pool.object.meta.uid == uid) else { return };
        pool.tending = false;
        pool.checked = news.checked.or(pool.checked.take());
        if news.created {
            pool.refusal = None;
        }
        if let Some(message) = news.refused {
            let times = pool.refusal.as_ref().map_or(0, |refusal| refusal.times) + 1;
            pool.refusal = Some(Refusal { message, at: now.wall.as_second(), times });
        }
        let mut failed = news.failed;
        match news.written {
            Some(Ok(object)) => pool.object = object,
            // A conflict: the watch brings what is there now.
            Some(Err(_)) => failed = true,
            None => {}
        }
        if failed {
            pool.failures += 1;
            pool.after = now.mono + failure::pause(pool.failures) / 4;
        } else {
            pool.failures = 0;
        }
        self.dirty.insert(Subject::Pool(key.clone()));
        // What they wait for may read otherwise now.
        self.touch_jobs_of(|job| job.object.meta.key.sibling(&job.object.spec.pool_ref.name) == *key);
    }

    /// The circuits that a pool keeps in memory, by name; those that exist.
    fn kept_circuits<'a>(&'a self, pool: &'a Pool) -> impl Iterator<Item = (&'a str, &'a CircuitObject)> {
        let kept = pool.object.spec.circuits.iter();
        kept.filter_map(|name| Some((name.as_str(), self.circuits.get(&pool.object.meta.key.sibling(name))?)))
    }

    /// Whether a larger pod is going to take the place of one for a circuit's sake, or could once the circuit's size is known.
    pub(super) fn may_grow(&self, pod: &str, circuit: &Key) -> bool {
        let grows = || {
            let engine = self.engines.get(pod)?;
            let pool = self.pools.get(&engine.pool)?;
            let has = pool::memory_of(self.pods.get(&engine.pod)?)?;
            let (_, kept) = self.kept_circuits(pool).find(|(name, _)| *name == circuit.name)?;
            let template = pool::pod::Template::of(&pool.object, &self.sizes(pool), &self.settings.pools).ok()?;
            let known = size(&kept.status).is_some();
            Some(!known || template.memory()? > has)
        };
        grows().unwrap_or(false)
    }

    /// The sizes of the circuits that a pool keeps in memory, as far as they are known.
    fn sizes(&self, pool: &Pool) -> Vec<CircuitSize> {
        self.kept_circuits(pool).filter_map(|(_, circuit)| size(&circuit.status)).collect()
    }

    /// Has every engine of a pool keep the pool's circuits in memory. What an engine could not load, but may later, is tried
    /// again after a while.
    fn preload(&mut self, key: &Key) {
        let Some(pool) = self.pools.get(key) else { return };
        let mut again = None;
        for name in &pool.object.spec.circuits {
            let Some(circuit) = self.circuits.get(&key.sibling(name)) else { continue };
            let Some(circuit) = message::circuit(name, &circuit.spec) else { continue };
            let engines = self.engines.iter_mut().filter(|(_, engine)| engine.pool == *key);
            for (pod, engine) in engines.filter(|(_, engine)| engine.connected.is_some() && !engine.draining) {
                let failed = engine.key_failures.get(name).is_some_and(failure::may_pass);
                let due = match engine.preloaded.get(name) {
                    None => self.now,
                    Some(told) if failed => *told + LOAD_AGAIN_AFTER,
                    Some(_) => continue,
                };
                if self.now >= due {
                    engine.preloaded.insert(name.clone(), self.now);
                    self.commands.push(Command::Preload { pod: pod.clone(), circuit: Box::new(circuit.clone()) });
                } else {
                    again = Some(again.map_or(due, |known: Duration| known.min(due)));
                }
            }
        }
        if let Some(at) = again {
            self.look_again(Subject::Pool(key.clone()), at);
        }
    }

    fn pods_of(&self, pool: &Key) -> impl Iterator<Item = &PodObject> {
        let mine = move |pod: &&PodObject| pod.meta.key.namespace == pool.namespace && pod.pool == pool.name;
        self.pods.values().filter(mine)
    }

    fn pod_input<'a>(&'a self, pod: &'a PodObject, circuits: &[String], now: &Now) -> PodInput<'a> {
        let engine = self.engines.get(&pod.meta.uid).map(|engine| view(engine, circuits, now)).unwrap_or_default();
        PodInput { pod, engine, node: self.node(pod) }
    }

    /// What is known of a pod's node.
    pub(super) fn node(&self, pod: &PodObject) -> NodeView {
        let name = pod.pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
        let node = self.nodes.get(&Key { namespace: String::new(), name });
        node.map_or_else(NodeView::default, |node| NodeView { leaving: node.leaving, lost_since: node.lost_since })
    }

    /// The work that waits for a pool; unknown until a new leader has heard all its engines.
    pub(super) fn demand(&self, pool: &Pool, now: Duration) -> Option<Demand> {
        if self.is_waiting_for_engines(now) {
            return None;
        }
        let key = &pool.object.meta.key;
        let queue = self.waiting.get(key);
        let waiting = u32::try_from(queue.map_or(0, std::collections::BTreeSet::len)).unwrap_or(u32::MAX);
        let length = |rank: &crate::jobs::record::Rank| {
            let job = self.jobs.get(&rank.job)?;
            self.pace.of(&rank.job.sibling(&job.object.spec.circuit_ref.name))
        };
        let queue: Duration = queue.into_iter().flatten().filter_map(length).sum();
        let engines = self.engines.values().filter(|engine| engine.pool == *key && engine.connected.is_some());
        let load = engines.map(Engine::load).fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
        let permille = (load.0 * 1000).checked_div(load.1);
        Some(Demand {
            waiting,
            queue_milliseconds: u64::try_from(queue.as_millis()).unwrap_or(u64::MAX),
            busy_permille: permille.and_then(|permille| u16::try_from(permille).ok()),
        })
    }
}

/// What a circuit takes of an engine's memory, as far as it is known.
fn size(status: &CircuitStatus) -> Option<CircuitSize> {
    let bytes = |bytes: Option<i64>| bytes.and_then(|bytes| u64::try_from(bytes).ok());
    Some(CircuitSize { key: bytes(status.key_bytes)?, partition: bytes(status.partition_bytes) })
}

/// An engine as [`crate::pool`] sees it.
fn view(engine: &Engine, circuits: &[String], now: &Now) -> EngineView {
    let reachable = engine.connected.is_some();
    let load = |name: &String| match engine.key_failures.get(name) {
        Some(failed) => {
            let (reason, words) = failure::of_key(failed);
            Some(KeyLoad::Failed(reason, words.to_owned()))
        }
        None => engine.loaded.contains(name).then_some(KeyLoad::Done),
    };
    EngineView {
        reachable,
        silent_since: (!reachable).then(|| now.seconds_at(engine.silent_since)),
        silence: if reachable { String::new() } else { engine.silence.clone() },
        ready: engine.ready,
        draining: engine.closed,
        assigned: u32::try_from(engine.assigned.len()).unwrap_or(u32::MAX),
        idle_since: engine.idle_since.map(|since| now.seconds_at(since)),
        resident: engine.resident.clone(),
        key_loads: circuits.iter().filter_map(|name| Some((name.clone(), load(name)?))).collect(),
        devices: u32::try_from(engine.devices).unwrap_or(u32::MAX),
    }
}
