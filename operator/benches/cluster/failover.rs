//! How long it takes until the other replica sends work after the leader was killed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::measure::{clock_offset, moments};
use crate::world::World;

const ROUNDS: usize = 5;

pub async fn run() {
    let Some(mut world) = World::new("bench-failover").await else { return };
    world.pool("default", 1, json!({"device": "Simulated"})).await;
    world.ready("default", 1).await;
    world.simulated("c", 1, 1).await;
    let pod = world.pods("default").await.remove(0);
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        world.start_operator(&format!("next-{round}"));
        // At another point of the leader's period each time.
        tokio::time::sleep(Duration::from_millis(5000 + 400 * round as u64)).await;
        let origin = Instant::now();
        let offset = clock_offset(&world, &pod, origin).await;
        let name = format!("j-{round}");
        let killed = origin.elapsed();
        world.kill_operator(round);
        world.job(&name, "c", json!({})).await;
        let job = world.end(&name).await;
        let trace: Value = serde_json::from_str(&world.page(&pod, "/trace").await).unwrap();
        let sent = moments(&trace, "queued")[&job.metadata.uid.unwrap()] / 1e6 + offset;
        times.push(sent - killed.as_secs_f64());
    }
    println!("\nfrom the leader's kill to the next replica's first submission, seconds (<= 15 + 1):");
    println!("  {}", times.iter().map(|time| format!("{time:.2}")).collect::<Vec<_>>().join(" "));
}
