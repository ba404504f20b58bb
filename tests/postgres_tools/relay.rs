//! A network that can be cut: what is sent while it is cut arrives when it is mended. It may be a long one.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Forwards connections to a port of this machine.
pub struct Relay {
    pub port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_cut: Mutex<bool>,
    mended: Condvar,
}

impl State {
    fn wait(&self) {
        drop(self.mended.wait_while(self.is_cut.lock().unwrap(), |is_cut| *is_cut).unwrap());
    }
}

impl Relay {
    pub fn to(port: u16) -> Self {
        Self::far(port, Duration::ZERO)
    }

    /// The same, on which a round trip takes longer by `delay`.
    pub fn far(port: u16, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let relay = Relay { port: listener.local_addr().unwrap().port(), state: Arc::default() };
        let state = relay.state.clone();
        thread::spawn(move || {
            for here in listener.incoming().flatten() {
                let state = state.clone();
                thread::spawn(move || {
                    state.wait();
                    let Ok(there) = TcpStream::connect(("127.0.0.1", port)) else { return };
                    let _ = (here.set_nodelay(true), there.set_nodelay(true));
                    let (Ok(from), Ok(to)) = (here.try_clone(), there.try_clone()) else { return };
                    let back = state.clone();
                    thread::spawn(move || forward(there, here, &back, delay));
                    forward(from, to, &state, Duration::ZERO);
                });
            }
        });
        relay
    }

    /// Stops forwarding. Connections stay open, and new ones are not answered.
    pub fn cut(&self) {
        *self.state.is_cut.lock().unwrap() = true;
    }

    /// Forwards what waits.
    pub fn mend(&self) {
        *self.state.is_cut.lock().unwrap() = false;
        self.state.mended.notify_all();
    }
}

fn forward(from: TcpStream, mut to: TcpStream, state: &State, delay: Duration) {
    let (send, sent) = channel::<(Instant, Vec<u8>)>();
    thread::scope(|scope| {
        let mut here = &from;
        scope.spawn(move || {
            // What is on its way at the same time arrives at the same time.
            for (at, bytes) in sent {
                state.wait();
                thread::sleep((at + delay).saturating_duration_since(Instant::now()));
                if to.write_all(&bytes).is_err() {
                    break;
                }
            }
            state.wait();
            let _ = to.shutdown(Shutdown::Both);
            let _ = here.shutdown(Shutdown::Both);
        });
        let mut bytes = [0; 64 * 1024];
        while let Ok(read @ 1..) = here.read(&mut bytes) {
            if send.send((Instant::now(), bytes[..read].to_vec())).is_err() {
                break;
            }
        }
        drop(send);
    });
}
