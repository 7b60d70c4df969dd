//! The core under a simulated clock.

mod critical;
mod deadlocks;
mod ledger;
mod schedules;
mod sim;
