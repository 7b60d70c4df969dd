//! The core under a simulated clock.

mod critical;
mod deadlocks;
mod health;
mod ledger;
mod schedules;
mod sim;
