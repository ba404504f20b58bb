//! Randomness that can be repeated.

/// A pseudo-random generator (xorshift).
#[derive(Clone)]
pub struct Dice(pub u64);

impl Dice {
    /// One with the seed of `ROADSTEAD_TEST_SEED`, or another one at each run.
    pub fn new() -> Self {
        let seed = from_environment("ROADSTEAD_TEST_SEED").unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.unwrap().as_nanos() as u64 | 1
        });
        println!("ROADSTEAD_TEST_SEED={seed}");
        Dice(seed)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A number in an environment variable.
pub fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
