//! The core under a simulated clock.

mod critical;
mod deadlocks;
mod health;
mod ledger;
mod memory;
mod schedules;
mod sim;
