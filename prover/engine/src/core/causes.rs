//! Why a device is idle, from the core's state alone. What workers report later is laid over this by the ledger.

use super::Core;
use super::device::Work;
use super::health::Health;
use crate::ledger::DeviceTime;

impl Core {
    /// The first cause that holds for a device, in the order of [`DeviceTime`].
    ///
    /// Preparations, steps and canaries are reported by their workers, with the wake-up before them as `Pickup`. Until
    /// then the watermark waits, so that here they count as nothing.
    pub(super) fn cause(&self, index: usize) -> DeviceTime {
        let Some(device) = self.devices.get(index) else { return DeviceTime::Unattributed };
        match device.health {
            Health::Quarantined { .. } => return DeviceTime::Fault,
            Health::Starting => return DeviceTime::Pickup,
            Health::Ready => {}
        }
        let keys = self.keys.any_awaited();
        let memory = self.memory_blocked;
        let synthesis = !self.ready.is_empty() || self.synthesizers.taken() > 0;
        let input = !self.fetch_queue.is_empty() || self.fetchers.taken() > 0;
        let has_work = device.work.iter().any(|work| *work != Work::Idle);
        let queued = self.device_queue.iter().any(|order| self.is_eligible(order.ticket, index));

        if self.draining && !(has_work || queued || keys || memory || synthesis || input) {
            DeviceTime::Draining
        } else if device.work.iter().any(|work| matches!(work, Work::HandingOver(_))) {
            DeviceTime::HostPrep
        } else if device.work.iter().any(|work| matches!(work, Work::AwaitingFinalizer(_))) {
            DeviceTime::FinishBackpressure
        } else if queued && !device.memory_blocked {
            DeviceTime::Pickup
        } else if keys {
            DeviceTime::KeyLoad
        } else if device.memory_blocked || (memory && self.has_free_synthesizer()) {
            DeviceTime::MemoryBudget
        } else if synthesis {
            DeviceTime::Synthesis
        } else if input {
            DeviceTime::Input
        } else if memory {
            // Waits for memory, and the worker that would synthesise it still drops a cancelled partition.
            DeviceTime::MemoryBudget
        } else {
            DeviceTime::NoWork
        }
    }
}
